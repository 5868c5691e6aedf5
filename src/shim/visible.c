// SPDX-License-Identifier: Apache-2.0
#include "shim/visible.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fmt.h"
#include "base/str.h"
#include "base/visible.h"
#include "shim/attach.h"
#include "shim/devices.h"
#include "shim/elf_find.h"
#include "shim/elf_import.h"
#include "shim/real.h"
#include "shim/say.h"

#define NAME      "CUDA_VISIBLE_DEVICES"
#define LIST_MAX  ((WIRE_MAX_GPUS + 1) * FMT_UUID_MAX)
#define TEXTS_MAX 64 /* different lists of one process; after that, one that names nothing */

struct text {
	struct text *next;
	char list[LIST_MAX];
};
_Static_assert(sizeof(struct text) <= 4096, "a page holds one text");

static struct text *_Atomic texts;
static _Atomic unsigned n_texts;

/* a copy of @list that stays; two threads may keep the same one twice */
static const char *keep(const char *list)
{
	struct text *head = atomic_load_explicit(&texts, memory_order_acquire), *mine;

	for (const struct text *t = head; t; t = t->next)
		if (strcmp(t->list, list) == 0)
			return t->list;
	if (atomic_fetch_add(&n_texts, 1) >= TEXTS_MAX)
		return "";
	mine = mmap(NULL, sizeof(*mine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (mine == MAP_FAILED)
		return "";
	(void)str_copy(mine->list, sizeof(mine->list), list);
	mine->next = head;
	while (!atomic_compare_exchange_weak(&texts, &mine->next, mine))
		;
	return mine->list;
}

/* does @a come before @b by PCI address, and as an instance of its card? */
static bool is_before(const struct wire_lease_gpu *a, const struct wire_lease_gpu *b)
{
	return a->index != b->index ? a->index < b->index : a->mig_index < b->mig_index;
}

/* the lease's slots in the order that an index counts */
static void order_slots(const struct wire_attached *lease, unsigned slots[WIRE_MAX_GPUS])
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	bool by_pci = order && strcmp(order, "PCI_BUS_ID") == 0;

	for (unsigned i = 0; i < lease->n_gpus; i++) {
		unsigned at = i;

		for (; by_pci && at && is_before(&lease->gpus[i], &lease->gpus[slots[at - 1]]);
		     at--)
			slots[at] = slots[at - 1];
		slots[at] = i;
	}
}

static void write_list(const struct wire_attached *lease, const char *asked, char list[LIST_MAX])
{
	unsigned slots[WIRE_MAX_GPUS], picked[WIRE_MAX_GPUS + 1], n;
	struct visible_device devices[WIRE_MAX_GPUS] = { 0 };
	size_t len = 0;

	order_slots(lease, slots);
	for (unsigned i = 0; i < lease->n_gpus; i++) {
		memcpy(devices[i].uuid, lease->gpus[slots[i]].uuid.bytes, sizeof(devices[i].uuid));
		devices[i].is_mig = (lease->gpus[slots[i]].flags & WIRE_GPU_MIG) != 0;
	}
	n = visible_pick(asked, devices, lease->n_gpus, picked);
	list[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		const struct visible_device *device = &devices[picked[i]];
		struct fmt_buf name;

		(void)str_print(list + len, LIST_MAX - len, "%s%s", i ? "," : "",
				fmt_uuid(&name, device->is_mig ? "MIG-" : "GPU-", device->uuid));
		len += strlen(list + len);
	}
}

static bool is_narrower(const struct wire_attached *lease)
{
	return lease && lease->n_gpus < lease->system_gpus;
}

const char *visible_narrow(const char *asked)
{
	const struct wire_attached *lease = attach_lease();
	int saved_errno = errno;
	char list[LIST_MAX];

	if (!is_narrower(lease))
		return asked;
	write_list(lease, asked, list);
	asked = keep(list);
	errno = saved_errno;
	return asked;
}

/* ---- in getenv's place, for the driver ---- */

static char *answer(const char *name, char *value)
{
	return name && strcmp(name, NAME) == 0 ? (char *)visible_narrow(value) : value;
}

static char *driver_getenv(const char *name)
{
	return answer(name, getenv(name));
}

static char *driver_secure_getenv(const char *name)
{
	return answer(name, secure_getenv(name));
}

void visible_redirect(void)
{
	const struct link_map *map = elf_map_of((const void *)real_cuInit);
	unsigned n;

	if (!map || map == elf_map_of(&texts))
		return; /* the driver has no cuInit */
	n = elf_import_replace(map, "getenv", (void *)driver_getenv);
	n += elf_import_replace(map, "secure_getenv", (void *)driver_secure_getenv);
	n += elf_import_replace(map, "__secure_getenv", (void *)driver_secure_getenv);
	if (!n)
		say_debug("the driver does not import getenv: it shows every GPU of the machine");
}

void visible_check(void)
{
	int n;

	if (!is_narrower(attach_lease()))
		return;
	n = devices_count();
	for (int i = 0; i < n; i++)
		if (devices_slot(i) == DEVICES_OUTSIDE)
			say_debug("CUDA device %d is outside of this job's lease and yet seen", i);
}
