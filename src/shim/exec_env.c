// SPDX-License-Identifier: Apache-2.0
#include "shim/exec_env.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/str.h"
#include "shim/env.h"

#define PRELOAD "LD_PRELOAD="
#define SOCKET  "ALLOT_SOCKET="
#define GRAIN   ((size_t)64 << 10)

/* what every environment must have; "" where there is nothing to ask for */
struct wanted {
	const char *library[2];
	const char *socket;
};

struct thread_room {
	void *at;
	size_t bytes;
};

static _Thread_local struct thread_room thread_rooms[EXEC_KIND_COUNT]
	__attribute__((tls_model("initial-exec")));

void *exec_take(struct exec_room *room, enum exec_kind kind, size_t bytes)
{
	struct thread_room *mine = &thread_rooms[kind];
	size_t rounded;
	void *at;

	if (bytes <= sizeof(room->bytes))
		return room->bytes;
	if (bytes <= mine->bytes)
		return mine->at;
	rounded = (bytes + GRAIN - 1) & ~(GRAIN - 1);
	at = rounded < bytes ? MAP_FAILED
			     : mmap(NULL, rounded, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		errno = ENOMEM;
		return NULL;
	}
	if (mine->at)
		(void)munmap(mine->at, mine->bytes); /* only memory: cannot matter */
	*mine = (struct thread_room){ .at = at, .bytes = rounded };
	return at;
}

/* The name by which the job was given a library, else where it lies; "" when it is not ours to say
 */
static const char *library(const char *as_started, const char *file)
{
	if (as_started[0])
		return as_started;
	/* mounted in the driver's place under its name, it needs no preload */
	return file[0] == '/' && strstr(file, "/liballot-") ? file : "";
}

static bool find_wanted(struct wanted *ret)
{
	const struct shim_env *env = env_get();

	if (!env->in_job)
		return false;
	ret->library[0] = library(env->preload[0], env->self);
	ret->library[1] = library(env->preload[1], env->sibling);
	ret->socket = env->socket;
	return true;
}

static bool lists(const char *value, const char *name)
{
	size_t len = strlen(name);

	if (!len)
		return true;
	for (const char *at = value; *at; at += strspn(at, ": ")) {
		size_t n = strcspn(at, ": ");

		if (n == len && memcmp(at, name, n) == 0)
			return true;
		at += n;
	}
	return false;
}

/* Every occurrence counts: the linker heeds the last LD_PRELOAD, getenv the first of a name. */
static bool is_whole(char *const envp[], const struct wanted *wanted)
{
	bool preload = !wanted->library[0][0] && !wanted->library[1][0], socket = false;

	for (; envp && *envp; envp++) {
		if (str_starts_with(*envp, PRELOAD)) {
			const char *value = *envp + strlen(PRELOAD);

			if (!lists(value, wanted->library[0]) || !lists(value, wanted->library[1]))
				return false;
			preload = true;
		} else if (str_starts_with(*envp, SOCKET)) {
			if (strcmp(*envp + strlen(SOCKET), wanted->socket) != 0)
				return false;
			socket = true;
		}
	}
	return preload && socket;
}

static char *add(char *at, const char *text, size_t len)
{
	memcpy(at, text, len);
	at[len] = '\0';
	return at + len;
}

static bool is_ours(const char *entry, size_t len)
{
	const char *base = entry;

	for (size_t i = 0; i < len; i++) {
		if (entry[i] == '/')
			base = entry + i + 1;
	}
	return str_starts_with(base, "liballot-cuda") || str_starts_with(base, "liballot-nvml");
}

/* LD_PRELOAD: ours, then what else @others lists. Returns its end. */
static char *write_preload(char *at, const struct wanted *wanted, const char *others)
{
	const char *colon = "";

	at = add(at, PRELOAD, strlen(PRELOAD));
	for (int i = 0; i < 2; i++) {
		if (!wanted->library[i][0])
			continue;
		at = add(at, colon, strlen(colon));
		at = add(at, wanted->library[i], strlen(wanted->library[i]));
		colon = ":";
	}
	for (const char *entry = others; *entry; entry += strspn(entry, ": ")) {
		size_t len = strcspn(entry, ": ");

		if (len > 0 && !is_ours(entry, len)) {
			at = add(at, colon, strlen(colon));
			at = add(at, entry, len);
			colon = ":";
		}
		entry += len;
	}
	return at;
}

char *const *exec_env(char *const envp[], struct exec_room *room)
{
	struct wanted wanted;
	const char *others = "";
	char **copy, **to, *text;
	size_t n = 0, bytes;
	int saved_errno = errno;

	if (!find_wanted(&wanted) || is_whole(envp, &wanted))
		return envp;
	for (char *const *from = envp; from && *from; from++, n++) {
		if (str_starts_with(*from, PRELOAD))
			others = *from + strlen(PRELOAD);
	}
	bytes = (n + 3) * sizeof(*copy) + sizeof(PRELOAD) + strlen(wanted.library[0]) + 1 +
		strlen(wanted.library[1]) + 1 + strlen(others) + sizeof(SOCKET) +
		strlen(wanted.socket);
	copy = exec_take(room, EXEC_ENV, bytes);
	if (!copy)
		return NULL;
	to = copy;
	text = (char *)(copy + n + 3);
	if (wanted.library[0][0] || wanted.library[1][0]) {
		*to++ = text;
		text = write_preload(text, &wanted, others) + 1;
	} else if (others[0]) {
		*to++ = (char *)others - strlen(PRELOAD);
	}
	*to++ = text;
	text = add(text, SOCKET, strlen(SOCKET));
	(void)add(text, wanted.socket, strlen(wanted.socket));
	for (char *const *from = envp; from && *from; from++) {
		if (!str_starts_with(*from, PRELOAD) && !str_starts_with(*from, SOCKET))
			*to++ = *from;
	}
	*to = NULL;
	errno = saved_errno;
	return copy;
}

/* a text that counts on when its buffer is full */
struct counted {
	char *text;
	size_t size, len;
};

static void put(struct counted *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++, out->len++) {
		if (out->len + 1 < out->size)
			out->text[out->len] = text[i];
	}
}

/* export NAME='value', each ' in it as '\'' */
static void put_export(struct counted *out, const char *line, size_t name_len)
{
	put(out, "export ", 7);
	put(out, line, name_len);
	put(out, "'", 1);
	for (const char *c = line + name_len; *c; c++) {
		if (*c == '\'')
			put(out, "'\\''", 4);
		else
			put(out, c, 1);
	}
	put(out, "'\n", 2);
}

size_t exec_prelude(char *const envp[], char *text, size_t size)
{
	struct counted out = { .text = text, .size = size };

	for (; envp && *envp; envp++) {
		if (str_starts_with(*envp, PRELOAD))
			put_export(&out, *envp, strlen(PRELOAD));
		else if (str_starts_with(*envp, SOCKET))
			put_export(&out, *envp, strlen(SOCKET));
	}
	if (size)
		text[out.len < size ? out.len : size - 1] = '\0';
	return out.len;
}
