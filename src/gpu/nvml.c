// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/nvml_names.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"

#define SONAME   "libnvidia-ml.so.1"
#define OUR_NAME "liballot-nvml" /* how the file name of our interposer begins */

/* what is called; only the first group must be there */
#define NEEDED(F)                        \
	F(nvmlInit_v2)                   \
	F(nvmlShutdown)                  \
	F(nvmlDeviceGetCount_v2)         \
	F(nvmlDeviceGetHandleByIndex_v2) \
	F(nvmlDeviceGetUUID)             \
	F(nvmlDeviceGetMemoryInfo)
#define WANTED(F)                                     \
	F(nvmlSystemGetDriverVersion)                 \
	F(nvmlDeviceGetName)                          \
	F(nvmlDeviceGetPciInfo_v3)                    \
	F(nvmlDeviceGetMemoryInfo_v2)                 \
	F(nvmlDeviceGetUtilizationRates)              \
	F(nvmlDeviceGetTemperature)                   \
	F(nvmlDeviceGetPowerUsage)                    \
	F(nvmlDeviceGetEnforcedPowerLimit)            \
	F(nvmlDeviceGetComputeRunningProcesses)       \
	F(nvmlDeviceGetComputeRunningProcesses_v2)    \
	F(nvmlDeviceGetComputeRunningProcesses_v3)    \
	F(nvmlDeviceGetGraphicsRunningProcesses)      \
	F(nvmlDeviceGetGraphicsRunningProcesses_v2)   \
	F(nvmlDeviceGetGraphicsRunningProcesses_v3)   \
	F(nvmlDeviceGetMPSComputeRunningProcesses)    \
	F(nvmlDeviceGetMPSComputeRunningProcesses_v2) \
	F(nvmlDeviceGetMPSComputeRunningProcesses_v3) \
	F(nvmlDeviceGetMigMode)                       \
	F(nvmlDeviceGetMigDeviceHandleByIndex)        \
	F(nvmlDeviceGetGpuInstanceId)                 \
	F(nvmlDeviceGetComputeInstanceId)             \
	F(nvmlDeviceGetAttributes_v2)

struct api {
#define MEMBER(symbol) pfn_##symbol *symbol;
	NEEDED(MEMBER)
	WANTED(MEMBER)
#undef MEMBER
};

/* one kind of process list: a 24-byte layout when the driver has one, else the old 16-byte one */
struct list {
	uint32_t kind;
	pfn_nvmlDeviceGetComputeRunningProcesses_v3 *wide;
	pfn_nvmlDeviceGetComputeRunningProcesses *narrow;
};

/* what does not change, remembered so that a lost GPU can still be named */
struct identity {
	uint32_t valid;
	uint8_t uuid[16];
	char pci_bus_id[16];
	char name[96];
};

struct gpu_nvml {
	void *library;
	bool is_initialised;
	struct api api;
	struct list lists[3];
	struct identity known[GPU_MAX];
	bool is_divided[GPU_MAX]; /* in MIG mode, when that was told last */
	char driver_version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
	char path[1024];
};

/* ---- the library ---- */

static void note_path(struct gpu_nvml *nvml)
{
	struct link_map *map;

	if (dlinfo(nvml->library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name)
		(void)str_copy(nvml->path, sizeof(nvml->path), map->l_name); /* cut: for people */
}

/* our interposer has the real library's soname, so the loader may take it for that */
static bool is_ours(const struct gpu_nvml *nvml)
{
	const char *slash = strrchr(nvml->path, '/');

	return str_starts_with(slash ? slash + 1 : nvml->path, OUR_NAME);
}

static int try_file(struct gpu_nvml *nvml, const char *dir, struct err *err)
{
	char path[1024];

	if (!str_print(path, sizeof(path), "%s/" SONAME, dir))
		return err_set(err, -ENAMETOOLONG, "'%s': name too long", dir);
	if (access(path, F_OK) < 0)
		return err_set(err, -ENOENT, "there is no '%s'", path);
	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return err_set(err, -ELIBBAD, "%s", dlerror());
	note_path(nvml);
	return 0;
}

static int try_soname(struct gpu_nvml *nvml, struct err *err)
{
	nvml->library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return err_set(err, -ENOENT, "%s: is an NVIDIA driver installed?", dlerror());
	note_path(nvml);
	return 0;
}

static int load(struct gpu_nvml *nvml, const char *driver_dir, struct err *err)
{
	/* where drivers install it, for the one case that our interposer is in front */
	static const char *const usual[] = {
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
		"/usr/lib/wsl/lib",          "/usr/local/nvidia/lib64"
	};
	int r;

	if (driver_dir && *driver_dir)
		return try_file(nvml, driver_dir, err);
	r = try_soname(nvml, err);
	if (r < 0 || !is_ours(nvml))
		return r;
	dlclose(nvml->library);
	nvml->library = NULL;
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (try_file(nvml, usual[i], NULL) == 0)
			return 0;
	return err_set(err, -ENOENT,
		       "only our own " SONAME " was found; name the driver's folder "
		       "with --driver");
}

static int resolve(struct gpu_nvml *nvml, struct err *err)
{
	struct api *api = &nvml->api;

#define FIND(symbol) api->symbol = (pfn_##symbol *)dlsym(nvml->library, #symbol);
	NEEDED(FIND)
	WANTED(FIND)
#undef FIND
#define CHECK(symbol)     \
	if (!api->symbol) \
		return err_set(err, -ELIBBAD, "'%s' has no " #symbol, nvml->path);
	NEEDED(CHECK)
#undef CHECK
	return 0;
}

/*
 * The first 535 drivers (before 535.98) gave _v3 one field more than all others before and since;
 * their _v2 is as everywhere.
 */
static bool is_odd_v3(const char *version)
{
	return str_starts_with(version, "535.") && strlen(version) > 5 && version[4] >= '0' &&
	       version[4] <= '9' && version[5] >= '0' && version[5] <= '9' &&
	       (version[4] - '0') * 10 + version[5] - '0' < 98 &&
	       (version[6] == '.' || version[6] == '\0');
}

static void choose_lists(struct gpu_nvml *nvml)
{
	const struct api *api = &nvml->api;
	bool odd = is_odd_v3(nvml->driver_version);

#define PICK(name) (api->name##_v3 && !odd ? api->name##_v3 : api->name##_v2)
	nvml->lists[0] =
		(struct list){ GPU_PROC_COMPUTE, PICK(nvmlDeviceGetComputeRunningProcesses),
			       api->nvmlDeviceGetComputeRunningProcesses };
	nvml->lists[1] =
		(struct list){ GPU_PROC_GRAPHICS, PICK(nvmlDeviceGetGraphicsRunningProcesses),
			       api->nvmlDeviceGetGraphicsRunningProcesses };
	nvml->lists[2] = (struct list){ GPU_PROC_MPS, PICK(nvmlDeviceGetMPSComputeRunningProcesses),
					api->nvmlDeviceGetMPSComputeRunningProcesses };
#undef PICK
}

/* a driver that fills the whole room has forgotten the end */
static void end_text(char *text, size_t size)
{
	text[size - 1] = '\0';
}

static int init(struct gpu_nvml *nvml, struct err *err)
{
	nvmlReturn_t r = nvml->api.nvmlInit_v2();

	switch ((int)r) {
	case NVML_SUCCESS:
		break;
	case NVML_ERROR_DRIVER_NOT_LOADED:
	case NVML_ERROR_LIBRARY_NOT_FOUND:
	case NVML_ERROR_GPU_NOT_FOUND:
		return err_set(err, -ENODEV, "NVML does not start: %s", nvml_result_text(r));
	case NVML_ERROR_NO_PERMISSION:
		return err_set(err, -EACCES, "NVML does not start: %s", nvml_result_text(r));
	default:
		return err_set(err, -EIO, "NVML does not start: %s (%s)", nvml_result_text(r),
			       nvml_result_name(r));
	}
	nvml->is_initialised = true;
	if (!nvml->api.nvmlSystemGetDriverVersion ||
	    nvml->api.nvmlSystemGetDriverVersion(nvml->driver_version,
						 sizeof(nvml->driver_version)))
		nvml->driver_version[0] = '\0';
	end_text(nvml->driver_version, sizeof(nvml->driver_version));
	str_printable(nvml->driver_version);
	return 0;
}

int gpu_nvml_open(const char *driver_dir, struct gpu_nvml **ret, struct err *err)
{
	struct gpu_nvml *nvml = calloc(1, sizeof(*nvml));
	int r;

	if (!nvml)
		return err_set(err, -ENOMEM, "no memory");
	r = load(nvml, driver_dir, err);
	if (r == 0)
		r = resolve(nvml, err);
	if (r == 0)
		r = init(nvml, err);
	if (r < 0) {
		gpu_nvml_close(nvml);
		return r;
	}
	choose_lists(nvml);
	*ret = nvml;
	return 0;
}

void gpu_nvml_close(struct gpu_nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->is_initialised)
		(void)nvml->api.nvmlShutdown(); /* nobody left to tell */
	if (nvml->library)
		dlclose(nvml->library);
	free(nvml);
}

const char *gpu_nvml_driver_version(const struct gpu_nvml *nvml)
{
	return nvml->driver_version;
}

const char *gpu_nvml_path(const struct gpu_nvml *nvml)
{
	return nvml->path;
}

int gpu_nvml_count(struct gpu_nvml *nvml, struct err *err)
{
	unsigned n = 0;
	nvmlReturn_t r = nvml->api.nvmlDeviceGetCount_v2(&n);

	if (r)
		return err_set(err, -EIO, "NVML cannot count GPUs: %s", nvml_result_text(r));
	return (int)size_min(n, GPU_MAX);
}

/* ---- one GPU ---- */

static bool is_loss(nvmlReturn_t r)
{
	return r == NVML_ERROR_GPU_IS_LOST || r == NVML_ERROR_RESET_REQUIRED;
}

/* 0 when the call worked; notes that the GPU is gone */
static bool ok(struct gpu_sample *s, nvmlReturn_t r)
{
	if (is_loss(r))
		s->flags |= GPU_LOST;
	return r == NVML_SUCCESS;
}

static void lower(char *s)
{
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'F')
			*s = (char)(*s - 'A' + 'a');
}

/* "00000000:83:00.0" or "0000:83:00.0" → "0000:83:00.0"; a domain over 16 bits is kept whole */
static bool shorten_bus_id(const char *id, char out[16])
{
	const char *colon = strchr(id, ':');

	if (colon && colon - id == 8 && !strncmp(id, "0000", 4))
		id += 4;
	if (!str_copy(out, 16, id))
		return false;
	str_printable(out);
	lower(out);
	return true;
}

static void read_identity(struct gpu_nvml *nvml, nvmlDevice_t device, struct identity *id,
			  struct gpu_sample *s)
{
	const struct api *api = &nvml->api;
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	nvmlPciInfo_t pci;

	id->valid = 0;
	memset(uuid, 0, sizeof(uuid));
	if (ok(s, api->nvmlDeviceGetUUID(device, uuid, sizeof(uuid))) &&
	    str_is_terminated(uuid, sizeof(uuid)) && parse_uuid(uuid, id->uuid, NULL) == 0)
		id->valid |= GPU_HAS_UUID;
	if (api->nvmlDeviceGetName &&
	    ok(s, api->nvmlDeviceGetName(device, id->name, sizeof(id->name))))
		id->valid |= GPU_HAS_NAME;
	else
		id->name[0] = '\0';
	end_text(id->name, sizeof(id->name));
	str_printable(id->name);
	memset(&pci, 0, sizeof(pci));
	if (api->nvmlDeviceGetPciInfo_v3 && ok(s, api->nvmlDeviceGetPciInfo_v3(device, &pci)) &&
	    str_is_terminated(pci.busId, sizeof(pci.busId)) &&
	    shorten_bus_id(pci.busId, id->pci_bus_id))
		id->valid |= GPU_HAS_PCI;
}

static void put_identity(const struct identity *id, struct gpu_sample *s)
{
	s->valid |= id->valid;
	memcpy(s->uuid, id->uuid, sizeof(s->uuid));
	memcpy(s->pci_bus_id, id->pci_bus_id, sizeof(s->pci_bus_id));
	memcpy(s->name, id->name, sizeof(s->name));
}

static void read_memory(struct gpu_nvml *nvml, nvmlDevice_t device, struct gpu_sample *s)
{
	const struct api *api = &nvml->api;
	nvmlMemory_v2_t v2 = { .version = NVML_MEMORY_V2 };
	nvmlMemory_t v1 = { 0 };
	nvmlReturn_t r = api->nvmlDeviceGetMemoryInfo_v2
				 ? api->nvmlDeviceGetMemoryInfo_v2(device, &v2)
				 : NVML_ERROR_FUNCTION_NOT_FOUND;

	/*
	 * Only a driver that has no v2 is asked the old way: v1 counts the driver's reserve as
	 * used, and figures of both kinds one after the other would show that much appear from
	 * nowhere.
	 */
	if (r != NVML_ERROR_FUNCTION_NOT_FOUND && r != NVML_ERROR_NOT_SUPPORTED &&
	    r != NVML_ERROR_ARGUMENT_VERSION_MISMATCH && !ok(s, r))
		return;
	if (r == NVML_SUCCESS) {
		s->total_bytes = v2.total;
		s->reserved_bytes = v2.reserved;
		s->used_bytes = v2.used;
		s->free_bytes = v2.free;
		s->valid |= GPU_HAS_TOTAL | GPU_HAS_RESERVED | GPU_HAS_USED;
	} else if (ok(s, api->nvmlDeviceGetMemoryInfo(device, &v1))) {
		s->total_bytes = v1.total;
		s->used_bytes = v1.used;
		s->free_bytes = v1.free;
		s->valid |= GPU_HAS_TOTAL | GPU_HAS_USED;
	}
}

static void read_activity(struct gpu_nvml *nvml, nvmlDevice_t device, struct gpu_sample *s)
{
	const struct api *api = &nvml->api;
	nvmlUtilization_t rates = { 0 };

	if (api->nvmlDeviceGetUtilizationRates &&
	    ok(s, api->nvmlDeviceGetUtilizationRates(device, &rates))) {
		s->utilization_pct = rates.gpu;
		s->valid |= GPU_HAS_UTILIZATION;
	}
	if (api->nvmlDeviceGetTemperature &&
	    ok(s, api->nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &s->temperature_c)))
		s->valid |= GPU_HAS_TEMPERATURE;
	if (api->nvmlDeviceGetPowerUsage &&
	    ok(s, api->nvmlDeviceGetPowerUsage(device, &s->power_mw)))
		s->valid |= GPU_HAS_POWER;
	if (api->nvmlDeviceGetEnforcedPowerLimit &&
	    ok(s, api->nvmlDeviceGetEnforcedPowerLimit(device, &s->power_limit_mw)))
		s->valid |= GPU_HAS_POWER_LIMIT;
}

/* ---- processes ---- */

/*
 * Where a pid stands in the sample being filled, so that a crowd costs no search: place + 1, found
 * by open addressing; 0 is free.  Of one sample at a time, as everything here.
 */
#define PLACES (4 * GPU_PROCS_MAX)
_Static_assert((PLACES & (PLACES - 1)) == 0 && GPU_PROCS_MAX < UINT16_MAX, "masks and fits");

static uint16_t places[PLACES];

/* the slot of @pid in places: where it stands, or where it would */
static uint16_t *place_of(const struct gpu_sample *s, unsigned pid)
{
	unsigned at = (pid * 2654435761u) & (PLACES - 1);

	while (places[at] && s->procs[places[at] - 1].pid != (pid_t)pid)
		at = (at + 1) & (PLACES - 1);
	return &places[at];
}

/* A process in several lists is one process: its figure is the greatest that is known. */
static void add_proc(struct gpu_sample *s, uint32_t kind, unsigned pid, uint64_t used)
{
	uint16_t *place = place_of(s, pid);

	if (*place) {
		struct gpu_proc *p = &s->procs[*place - 1];

		if (p->used_bytes == GPU_UNKNOWN_U64 ||
		    (used != GPU_UNKNOWN_U64 && used > p->used_bytes))
			p->used_bytes = used;
		p->kinds |= kind;
		return;
	}
	if (s->n_procs == GPU_PROCS_MAX) {
		s->flags |= GPU_PROCS_CUT;
		return;
	}
	s->procs[s->n_procs++] =
		(struct gpu_proc){ .pid = (pid_t)pid, .kinds = kind, .used_bytes = used };
	*place = (uint16_t)s->n_procs;
}

static nvmlReturn_t read_wide(const struct list *list, nvmlDevice_t device, struct gpu_sample *s)
{
	static nvmlProcessInfo_t infos[2 * GPU_PROCS_MAX];
	unsigned n = 2 * GPU_PROCS_MAX;
	nvmlReturn_t r = list->wide(device, &n, infos);

	if (r)
		return r;
	for (unsigned i = 0; i < n && i < 2 * GPU_PROCS_MAX; i++)
		add_proc(s, list->kind, infos[i].pid, infos[i].usedGpuMemory);
	return NVML_SUCCESS;
}

static nvmlReturn_t read_narrow(const struct list *list, nvmlDevice_t device, struct gpu_sample *s)
{
	static nvmlProcessInfo_v1_t infos[2 * GPU_PROCS_MAX];
	unsigned n = 2 * GPU_PROCS_MAX;
	nvmlReturn_t r = list->narrow(device, &n, infos);

	if (r)
		return r;
	for (unsigned i = 0; i < n && i < 2 * GPU_PROCS_MAX; i++)
		add_proc(s, list->kind, infos[i].pid, infos[i].usedGpuMemory);
	return NVML_SUCCESS;
}

/*
 * The compute list is what counts; a driver without graphics or MPS lists has no such processes
 * to show.  More than twice GPU_PROCS_MAX in one list: what there is cannot be read at all.
 */
static void read_procs(struct gpu_nvml *nvml, nvmlDevice_t device, struct gpu_sample *s)
{
	memset(places, 0, sizeof(places));
	for (unsigned i = 0; i < 3; i++) {
		const struct list *list = &nvml->lists[i];
		nvmlReturn_t r = list->wide     ? read_wide(list, device, s)
				 : list->narrow ? read_narrow(list, device, s)
						: NVML_ERROR_FUNCTION_NOT_FOUND;

		if (r == NVML_ERROR_INSUFFICIENT_SIZE)
			s->flags |= GPU_PROCS_CUT;
		if (ok(s, r) && list->kind == GPU_PROC_COMPUTE)
			s->valid |= GPU_HAS_PROCS;
	}
}

/* all but who it is */
static void read_figures(struct gpu_nvml *nvml, nvmlDevice_t device, struct gpu_sample *s)
{
	read_memory(nvml, device, s);
	read_activity(nvml, device, s);
	read_procs(nvml, device, s);
}

static void begin_sample(struct gpu_sample *s, unsigned index)
{
	memset(s, 0, offsetof(struct gpu_sample, procs)); /* n_procs says how many are meant */
	s->index = index;
	s->gi = s->ci = GPU_NO_ID;
	s->at_ns = clock_now_ns();
}

/* a question that fails for the moment changes nothing: a divided card must not look whole */
static bool is_in_mig_mode(struct gpu_nvml *nvml, unsigned index, nvmlDevice_t device)
{
	bool *known = &nvml->is_divided[index];
	unsigned current = 0, pending;
	nvmlReturn_t r = nvml->api.nvmlDeviceGetMigMode
				 ? nvml->api.nvmlDeviceGetMigMode(device, &current, &pending)
				 : NVML_ERROR_FUNCTION_NOT_FOUND;

	if (r == NVML_SUCCESS)
		*known = current != 0;
	else if (r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND)
		*known = false;
	return *known;
}

void gpu_nvml_sample_one(struct gpu_nvml *nvml, unsigned index, struct gpu_sample *s)
{
	struct identity *id = &nvml->known[index];
	struct identity fresh;
	nvmlDevice_t device;

	begin_sample(s, index);
	if (ok(s, nvml->api.nvmlDeviceGetHandleByIndex_v2(index, &device))) {
		memset(&fresh, 0, sizeof(fresh));
		read_identity(nvml, device, &fresh, s);
		if (fresh.valid & GPU_HAS_UUID)
			*id = fresh;
		if (is_in_mig_mode(nvml, index, device))
			s->flags |= GPU_MIG_MODE;
		read_figures(nvml, device, s);
	}
	put_identity(id, s);
}

/* ---- MIG instances ---- */

/* "NVIDIA H200 MIG 1g.18gb", also where the driver tells no more than the card's name */
static void name_instance(const struct api *api, nvmlDevice_t device, struct identity *id)
{
	nvmlDeviceAttributes_t a = { 0 };
	char profile[40], card[sizeof(id->name)];

	if (strstr(id->name, "MIG") || !api->nvmlDeviceGetAttributes_v2 ||
	    api->nvmlDeviceGetAttributes_v2(device, &a) || !a.gpuInstanceSliceCount)
		return;
	if (!str_print(profile, sizeof(profile), "MIG %ug.%llugb", a.gpuInstanceSliceCount,
		       (a.memorySizeMB + 512) / 1024))
		return;
	(void)str_copy(card, sizeof(card), id->name); /* of the same size */
	(void)str_print(id->name, sizeof(id->name), "%.*s %s",
			(int)(sizeof(id->name) - sizeof(profile)), card, profile);
}

static void read_instance_ids(const struct api *api, nvmlDevice_t device, struct gpu_sample *s)
{
	unsigned id;

	if (api->nvmlDeviceGetGpuInstanceId && ok(s, api->nvmlDeviceGetGpuInstanceId(device, &id)))
		s->gi = id;
	if (api->nvmlDeviceGetComputeInstanceId &&
	    ok(s, api->nvmlDeviceGetComputeInstanceId(device, &id)))
		s->ci = id;
}

bool gpu_nvml_sample_instance(struct gpu_nvml *nvml, unsigned index, unsigned mig,
			      struct gpu_sample *s)
{
	const struct api *api = &nvml->api;
	struct identity id = { 0 };
	nvmlDevice_t card, device;

	begin_sample(s, index);
	s->mig_index = mig;
	s->flags |= GPU_INSTANCE;
	/* holes in the numbers are nothing unusual, and what answers them differs by driver */
	if (!api->nvmlDeviceGetMigDeviceHandleByIndex ||
	    api->nvmlDeviceGetHandleByIndex_v2(index, &card) ||
	    api->nvmlDeviceGetMigDeviceHandleByIndex(card, mig, &device))
		return false;
	read_identity(nvml, device, &id, s);
	if (!(id.valid & GPU_HAS_PCI) && (nvml->known[index].valid & GPU_HAS_PCI)) {
		memcpy(id.pci_bus_id, nvml->known[index].pci_bus_id, sizeof(id.pci_bus_id));
		id.valid |= GPU_HAS_PCI;
	}
	name_instance(api, device, &id);
	read_instance_ids(api, device, s);
	read_figures(nvml, device, s);
	put_identity(&id, s);
	return true;
}

int gpu_nvml_sample(struct gpu_nvml *nvml, struct gpu_sample out[], unsigned max, struct err *err)
{
	int n = gpu_nvml_count(nvml, err);

	if (n < 0)
		return n;
	if ((unsigned)n > max)
		n = (int)max;
	for (int i = 0; i < n; i++)
		gpu_nvml_sample_one(nvml, (unsigned)i, &out[i]);
	return n;
}
