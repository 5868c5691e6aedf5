// SPDX-License-Identifier: Apache-2.0
/*
 * seeds NAME FOLDER: the inputs from which fuzz_NAME begins, made by the structs of this build, so
 * that they never grow stale when one of them changes.  What once crashed is kept as a file in
 * corpus/NAME.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/sampler_wire.h"
#include "wire/wire.h"

static const char *folder;
static unsigned n_written;

static void put(const char *name, const void *data, size_t size)
{
	char path[4096];
	FILE *f;

	if (!str_print(path, sizeof(path), "%s/%s", folder, name))
		exit(1);
	f = fopen(path, "we");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
	n_written++;
}

/* ---- each message, as good as it gets, and empty ---- */

static const unsigned types[] = {
#define WIRE_MSG(upper, lower, number, text) number,
#include "wire/messages.def"
};

static void seed_wire(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		_Alignas(8) unsigned char payload[WIRE_MAX_MESSAGE] = { 0 },
					  packet[WIRE_MAX_MESSAGE];
		char name[64];
		int len = wire_encode(packet, sizeof(packet), types[i], i, payload);

		(void)str_print(name, sizeof(name), "%s-zero", wire_name(types[i]));
		put(name, packet, (size_t)len);
		/* small numbers, and texts of one letter */
		for (int at = 0; at + 8 <= wire_size(types[i]); at += 8)
			payload[at] = (unsigned char)('a' + i % 16);
		len = wire_encode(packet, sizeof(packet), types[i], i, payload);
		(void)str_print(name, sizeof(name), "%s-some", wire_name(types[i]));
		put(name, packet, (size_t)len);
	}
}

/* ---- what a keeper hears ---- */

static void seed_keeper(void)
{
	static const unsigned char usual[] = {
		WIRE_KEEP, 1, 1,           7, WIRE_KEEP, 1,  1,           8, WIRE_DROP, 0,
		1,         7, WIRE_SIGNAL, 0, 1,         15, WIRE_SIGNAL, 0, 0,
	};
	static const unsigned char resumed[] = { WIRE_OK, 128, 0, WIRE_KEEP, 1, 1, 3, WIRE_ERROR,
						 0,       1,   6, WIRE_DROP, 0, 1, 3 };
	static const unsigned char refused[] = { WIRE_KEEP, 2, 1, 7, WIRE_ERROR, 128, 0 };
	static const unsigned char older[] = { WIRE_KEEP, 65, 1, 7 };

	put("usual", usual, sizeof(usual));
	put("resumed", resumed, sizeof(resumed));
	put("refused", refused, sizeof(refused));
	put("older", older, sizeof(older));
}

/* ---- what allotd hears from its sampler ---- */

static size_t add(unsigned char *to, size_t at, const void *packet, size_t size)
{
	uint16_t head = (uint16_t)(size | 0x8000);

	to[at] = (unsigned char)head;
	to[at + 1] = (unsigned char)(head >> 8);
	memcpy(to + at + 2, packet, size);
	return at + 2 + size;
}

static void seed_sampler(void)
{
	static unsigned char all[16384];
	struct sampler_gpu gpu = { .kind = SAMPLER_GPU,
				   .known = SAMPLER_MEMORY | SAMPLER_PROCESSES,
				   .n_processes = 2,
				   .total_bytes = 24 * GIB,
				   .pci_bus_id = "0000:01:00.0",
				   .model = "A card",
				   .driver_version = "580.1" };
	struct sampler_procs procs = { .kind = SAMPLER_PROCS_OF_GPU, .n = 2 };
	struct sampler_done done = { .kind = SAMPLER_DONE, .is_ok = 1, .n_gpus = 1 };
	size_t n = 0;

	n = add(all, n, &gpu, sizeof(gpu));
	n = add(all, n, &procs, sizeof(procs));
	n = add(all, n, &gpu, sizeof(gpu));
	n = add(all, n, &done, sizeof(done));
	put("usual", all, n);
	memset(gpu.model, 'x', sizeof(gpu.model));
	memset(gpu.driver_version, 'x', sizeof(gpu.driver_version));
	memset(gpu.pci_bus_id, 'x', sizeof(gpu.pci_bus_id));
	memset(done.text, 'x', sizeof(done.text));
	gpu.index = UINT32_MAX;
	procs.n = UINT32_MAX;
	done.is_ok = 0;
	n = add(all, 0, &gpu, sizeof(gpu));
	gpu.index = 3;
	n = add(all, n, &gpu, sizeof(gpu));
	n = add(all, n, &procs, sizeof(procs));
	n = add(all, n, &done, sizeof(done));
	put("texts-without-end", all, n);
	n = add(all, 0, &done, 9);
	n = add(all, n, &gpu, sizeof(gpu) - 1);
	put("cut", all, n);
}

/* ---- an NVML ---- */

static void seed_nvml(void)
{
	unsigned char zeros[4096] = { 0 };
	unsigned char ones[4096];

	memset(ones, 'x', sizeof(ones));
	put("zeros", zeros, sizeof(zeros));
	put("texts-without-end", ones, sizeof(ones));
	memset(zeros, 1, 4096);
	memcpy(zeros + 90, "GPU-04000001-7d3c-4b8a-a5f0-6e1d2c3b4a03", 41);
	put("one", zeros, sizeof(zeros));
}

/* ---- rows of a state file ---- */

static void seed_store(void)
{
	/* a row of 22: numbers of one byte, two GPUs, ceilings, texts */
	static const unsigned char job[] = { 8,   0, 8,  8,   80,  8,   0, 42 * 2 * 0 + 0,
					     0,   0, 0,  8,   0,   8,   8, 0,
					     0,   0, 20, 0,   1,   5,   2, 'a',
					     'b', 6, 3,  'j', 'o', 'b', 6, 1,
					     'c' };
	static const unsigned char sql[] = "SQLite format 3\0\x10";

	put("job", job, sizeof(job));
	put("file", sql, sizeof(sql));
}

/* ---- a life with allotd; the steps of fuzz_daemon.c ---- */

static void seed_daemon(void)
{
	enum { KEEPER, CHILD, OTHER, OTHERS_CHILD };
#define SAY(what)      (2 + 8 * (what))
#define RUN(who, gib)  SAY(0), who, gib, 1, 0, 1, 0, 40, 0, 0, 1
#define ATTACH(who)    SAY(1), who, 1, 1, 0, 1, 0, 40, 0, 0, 1
#define NEED(who, bit) SAY(2), who, 1, 1, 0, 1, 0, bit, 0, 0, 1
#define CONTEXT(who)   SAY(3), who, 1, 1, 0, 1, 0, 28, 0, 0, 1
#define MADE(who)      SAY(4), who, 1, 1, 0, 1, 0, 28, 0, 1, 1
#define SAMPLE         5, 0, 32, 0, 28
#define HEAR(who)      7, who
	static const unsigned char one[] = { RUN(KEEPER, 2),
					     ATTACH(CHILD),
					     HEAR(CHILD),
					     NEED(CHILD, 28),
					     CONTEXT(CHILD),
					     MADE(CHILD),
					     SAMPLE,
					     HEAR(CHILD),
					     6,
					     CHILD,
					     0,
					     28,
					     20,
					     1,
					     0,
					     15,
					     CHILD };
	static const unsigned char two[] = { RUN(KEEPER, 20),
					     RUN(OTHER, 20),
					     ATTACH(CHILD),
					     ATTACH(OTHERS_CHILD),
					     NEED(CHILD, 34),
					     NEED(OTHERS_CHILD, 34),
					     SAMPLE,
					     SAMPLE,
					     15,
					     KEEPER,
					     15,
					     OTHER };
	static const unsigned char wait[] = { RUN(KEEPER, 2),
					      RUN(OTHER, 2),
					      ATTACH(CHILD),
					      ATTACH(OTHERS_CHILD),
					      NEED(CHILD, 34),
					      NEED(OTHERS_CHILD, 34),
					      NEED(OTHERS_CHILD, 33),
					      NEED(CHILD, 33),
					      SAMPLE,
					      HEAR(CHILD),
					      6,
					      CHILD,
					      0,
					      33,
					      33,
					      1,
					      0,
					      SAMPLE,
					      HEAR(OTHERS_CHILD),
					      15,
					      OTHERS_CHILD };

	static const unsigned char back[] = { RUN(KEEPER, 2),
					      ATTACH(CHILD),
					      HEAR(CHILD),
					      NEED(CHILD, 28),
					      SAMPLE,
					      HEAR(CHILD),
					      31,
					      0,
					      SAY(5),
					      KEEPER,
					      1,
					      1,
					      0,
					      1,
					      0,
					      40,
					      0,
					      0,
					      0,
					      ATTACH(CHILD),
					      NEED(CHILD, 30),
					      SAMPLE };

	put("one", one, sizeof(one));
	put("two", two, sizeof(two));
	put("wait", wait, sizeof(wait));
	put("back", back, sizeof(back));
	/* each message once, from somebody who is nothing yet, then from a program */
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		unsigned char each[64] = { RUN(KEEPER, 2), ATTACH(CHILD) };
		char name[64];
		size_t n = 22;

		each[n++] = (unsigned char)(i * 8);
		each[n++] = CHILD;
		each[n++] = 4;
		n += 4;
		each[n++] = (unsigned char)(i * 8);
		each[n++] = KEEPER;
		each[n++] = 1;
		each[n++] = 1;
		(void)str_print(name, sizeof(name), "says-%s", wire_name(types[i]));
		put(name, each, n);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} all[] = {
		{ "daemon", seed_daemon },   { "keeper", seed_keeper }, { "nvml", seed_nvml },
		{ "sampler", seed_sampler }, { "store", seed_store },   { "wire", seed_wire },
	};

	if (argc != 3)
		return 2;
	folder = argv[2];
	if (mkdir(folder, 0755) < 0 && errno != EEXIST) {
		perror(folder);
		return 1;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, argv[1]) == 0)
			all[i].make();
	return n_written ? 0 : 1;
}
