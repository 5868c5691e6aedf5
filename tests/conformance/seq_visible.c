// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA_VISIBLE_DEVICES in all its forms, on a machine with two GPUs.
 *
 * Each row is a process of its own.  GPUs are named by their NVML index, in the transcript and in
 * the rows: {1} stands for the UUID of GPU 1, {1:12} for its first 12 characters, {1^} for the UUID
 * in capitals, {1-} for it without "GPU-".
 */
#include "conform.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID_MAX 48

static void *nvml_symbol(const char *name)
{
	static void *library;

	if (!library)
		library = dlopen(conf_nvml_path, RTLD_NOW | RTLD_LOCAL);
	return library ? dlsym(library, name) : NULL;
}

/* the UUIDs by NVML index; how many */
static unsigned find_uuids(char uuids[][UUID_MAX], unsigned max)
{
	int (*init)(void) = nvml_symbol("nvmlInit_v2");
	int (*count)(unsigned *) = nvml_symbol("nvmlDeviceGetCount_v2");
	int (*at)(unsigned, void **) = nvml_symbol("nvmlDeviceGetHandleByIndex_v2");
	int (*uuid)(void *, char *, unsigned) = nvml_symbol("nvmlDeviceGetUUID");
	unsigned n = 0;
	void *device;

	if (!init || !count || !at || !uuid || init() || count(&n))
		return 0;
	for (unsigned i = 0; i < n && i < max; i++)
		if (at(i, &device) || uuid(device, uuids[i], UUID_MAX))
			return 0;
	return n < max ? n : max;
}

static void uuid_text(CUdevice dev, char text[UUID_MAX])
{
	CUuuid uuid;
	const unsigned char *b = (const unsigned char *)uuid.bytes;
	int at;

	memset(&uuid, 0, sizeof(uuid));
	QUIET(cuDeviceGetUuid_v2, &uuid, dev);
	at = snprintf(text, UUID_MAX, "GPU-");
	for (int i = 0; i < 16; i++)
		at += snprintf(text + at, UUID_MAX - (size_t)at, "%s%02x",
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

/* in a process of its own: what is there */
int helper_visible(const char *arg)
{
	char uuids[8][UUID_MAX], mine[UUID_MAX];
	unsigned n = find_uuids(uuids, 8), known;
	POISONED_INT(count);

	(void)arg;
	CALL(cuInit, 0);
	if (CALL(cuDeviceGetCount, &count) != CUDA_SUCCESS)
		count = 0;
	INT(count);
	for (int dev = 0; dev < count && dev < 8; dev++) {
		uuid_text(dev, mine);
		for (known = 0; known < n && strcmp(uuids[known], mine) != 0; known++)
			;
		out_flush();
		out_append("# device %d is GPU %d", dev, known < n ? (int)known : -1);
	}
	out_flush();
	return 0;
}

/* @template with its {…} filled in */
static void expand(const char *template, char *list, size_t size)
{
	char uuids[8][UUID_MAX];
	unsigned n = find_uuids(uuids, 8), which = 0;
	size_t len = 0;

	for (const char *t = template; *t && len + 1 < size; t++) {
		const char *name;
		size_t cut;

		if (*t != '{') {
			list[len++] = *t;
			continue;
		}
		which = (unsigned)(t[1] - '0');
		name = which < n ? uuids[which] : "GPU-none";
		name += strchr(t, '-') && strchr(t, '-') < strchr(t, '}') ? 4 : 0;
		cut = t[2] == ':' ? (size_t)atoi(t + 3) : strlen(name);
		for (size_t i = 0; i < cut && name[i] && len + 1 < size; i++)
			list[len++] = t[2] == '^' ? (char)toupper((unsigned char)name[i]) : name[i];
		t = strchr(t, '}');
	}
	list[len] = '\0';
}

static void look(const char *template, const char *order)
{
	char list[1024];

	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	if (order)
		setenv("CUDA_DEVICE_ORDER", order, 1);
	if (template) {
		expand(template, list, sizeof(list));
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
	}
	out_line("# CUDA_VISIBLE_DEVICES %s%s%s%s%s", template ? "='" : "not set",
		 template ? template : "", template ? "'" : "", order ? " order " : "",
		 order ? order : "");
	run_helper("visible", "");
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
}

static void all(const char *const *templates)
{
	for (; *templates; templates++)
		look(*templates, NULL);
}

static void indices(void)
{
	look(NULL, NULL);
	all((const char *const[]){ "0", "1", "0,1", "1,0", "2", "2,0", "0,2,1", "-1", "0,-1,1",
				   "1,0,2", NULL });
}

static void nothing(void)
{
	all((const char *const[]){ "", " ", ",", "NoDevFiles", "none", "all", "x", "x,0", NULL });
}

static void cuts(void)
{
	all((const char *const[]){ "0,", ",0", "0,,1", "1,x,0", "0;1", "0 1", "0,1,", "1,99,0",
				   NULL });
}

static void blanks(void)
{
	all((const char *const[]){ " 0", "0 ", " 1 , 0 ", "\t1", "1\t,0", "1, 0", "1 ,0", NULL });
}

static void numbers(void)
{
	all((const char *const[]){ "00", "01", "+1", "0x1", "1a", "1.0", "1e0", "4294967296",
				   "4294967297", "18446744073709551617", NULL });
}

static void names(void)
{
	all((const char *const[]){ "{0}", "{1}", "{1},{0}", "{1:12}", "{1:20},{0:20}", "{1^}",
				   "gpu-{1-}", "{1-}", "GPU-", "GPU", "{1}0", "{1}x", " {1} ",
				   "GPU-ffffffff", "GPU-ffffffff,{0}", "{0},GPU-ffffffff,{1}",
				   NULL });
}

static void mixed(void)
{
	all((const char *const[]){ "1,{0}", "{1},0", "{0},9,1", "MIG-{1}", "MIG-{1}/0/0",
				   "MIG-{1-}", "0,MIG-{1}/0/0", NULL });
}

static void twice(void)
{
	all((const char *const[]){ "0,0", "1,1", "0,1,0", "1,0,1", "{0},{0}", "0,{0}", "0,9,0",
				   "0,-1,0", NULL });
}

static void order(void)
{
	look(NULL, "PCI_BUS_ID");
	look(NULL, "FASTEST_FIRST");
	look("1,0", "PCI_BUS_ID");
	look("1,0", "FASTEST_FIRST");
	look("1", "nonsense");
	look("{1},0", "PCI_BUS_ID");
}

FAMILY(visible, { "visible", "visible.indices", PAIR, indices },
       { "visible", "visible.nothing", PAIR, nothing }, { "visible", "visible.cuts", PAIR, cuts },
       { "visible", "visible.blanks", PAIR, blanks },
       { "visible", "visible.numbers", PAIR, numbers }, { "visible", "visible.names", PAIR, names },
       { "visible", "visible.mixed", PAIR, mixed }, { "visible", "visible.twice", PAIR, twice },
       { "visible", "visible.order", PAIR, order }, );
