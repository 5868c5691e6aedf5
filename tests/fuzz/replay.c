// SPDX-License-Identifier: Apache-2.0
/* Without libFuzzer: run the files of a corpus through the target, and damaged copies of each. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "base/str.h"
#include "fuzz.h"

#define REPLAY_MAX 65536
#ifndef REPLAY_DAMAGE /* fewer where one takes milliseconds */
#define REPLAY_DAMAGE 2000
#endif

static unsigned char data[REPLAY_MAX];

static void damage(size_t size, struct rand_state *r)
{
	unsigned char copy[REPLAY_MAX];

	for (unsigned i = 0; i < REPLAY_DAMAGE && size > 0; i++) {
		size_t cut = rand_below(r, 4) ? size : rand_below(r, size + 1);

		memcpy(copy, data, size);
		for (uint64_t n = rand_below(r, 4); n > 0; n--)
			copy[rand_below(r, size)] = (unsigned char)rand_next(r);
		(void)LLVMFuzzerTestOneInput(copy, cut);
	}
}

static int replay(const char *folder, struct rand_state *r)
{
	struct dirent *d;
	DIR *dir = opendir(folder);
	int files = 0;

	if (!dir) {
		perror(folder);
		return -1;
	}
	while ((d = readdir(dir))) {
		char path[4096];
		size_t size;
		FILE *f;

		if (d->d_name[0] == '.' ||
		    !str_print(path, sizeof(path), "%s/%s", folder, d->d_name))
			continue;
		f = fopen(path, "re");
		if (!f) {
			files = -1;
			break;
		}
		size = fread(data, 1, sizeof(data), f);
		(void)fclose(f);
		(void)LLVMFuzzerTestOneInput(data, size);
		damage(size, r);
		files++;
	}
	closedir(dir);
	return files;
}

int main(int argc, char **argv)
{
	struct rand_state r = { .s = 1 };
	int files = 0;

	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i], &r);

		if (n < 0)
			return 2;
		files += n;
	}
	printf("%d inputs, each with %u damaged copies\n", files, REPLAY_DAMAGE);
	return files ? 0 : 1;
}
