// SPDX-License-Identifier: Apache-2.0
/*
 * How busy, how fast, how warm.
 *
 * The shared timeline says how long a device has been busy, work that is still queued included.
 * Utilisation is the difference of two looks at it, the older at least a sixth of a second ago, as
 * the real one is an average over a sample period; the first look of a process has none before it
 * and tells whether there is work now.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "sim/nvml/nvml.h"

#define PERIOD_NS (NS_PER_S / 6)

/* busy until now: without what is queued for later */
static void look(nvmlDevice_t device, struct sim_nvml_mark *ret, bool *ret_now)
{
	struct sim_exec_shared *exec = sim_state_exec(sim_nvml.state, device->index);
	uint64_t until = exec->busy_until_ns;

	ret->at_ns = clock_now_ns();
	ret->busy_ns = size_sat_sub(exec->busy_total_ns, size_sat_sub(until, ret->at_ns));
	ret->copy_ns = exec->copy_total_ns;
	*ret_now = until > ret->at_ns;
}

static unsigned percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)size_min(part * 100 / whole, 100) : 0;
}

void sim_nvml_load(nvmlDevice_t device, struct sim_nvml_load *ret)
{
	struct sim_nvml_mark now, base;
	bool busy_now;

	pthread_mutex_lock(&sim_nvml.lock);
	look(device, &now, &busy_now);
	/* the younger mark becomes the base once it is a whole period old */
	if (!device->newer.at_ns || now.at_ns - device->newer.at_ns >= PERIOD_NS) {
		device->older = device->newer;
		device->newer = now;
	}
	base = device->older;
	pthread_mutex_unlock(&sim_nvml.lock);
	if (!base.at_ns) {
		ret->gpu_pct = busy_now ? 100 : 0;
		ret->copy_pct = 0;
		ret->period_us = PERIOD_NS / NS_PER_US;
		return;
	}
	ret->gpu_pct = percent(size_sat_sub(now.busy_ns, base.busy_ns), now.at_ns - base.at_ns);
	ret->copy_pct = percent(size_sat_sub(now.copy_ns, base.copy_ns), now.at_ns - base.at_ns);
	ret->period_us = (now.at_ns - base.at_ns) / NS_PER_US;
}

static unsigned gpu_pct(nvmlDevice_t device)
{
	struct sim_nvml_load load;

	sim_nvml_load(device, &load);
	return load.gpu_pct;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetUtilizationRates, device);
	struct sim_nvml_load load;

	if (r)
		return r;
	if (!rates)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* as reported of cards in MIG mode and of their instances */
	if (device->info->mig_mode || sim_nvml_is_instance(device))
		return NVML_ERROR_NOT_SUPPORTED;
	sim_nvml_load(device, &load);
	rates->gpu = load.gpu_pct;
	rates->memory = load.copy_pct;
	return NVML_SUCCESS;
}

/* there are no video engines at work in a simulated card */
#define IDLE_ENGINE(sym)                                                                  \
	nvmlReturn_t sym(nvmlDevice_t device, unsigned int *pct, unsigned int *period_us) \
	{                                                                                 \
		nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_##sym, device);           \
                                                                                          \
		if (r)                                                                    \
			return r;                                                         \
		if (!pct || !period_us)                                                   \
			return NVML_ERROR_INVALID_ARGUMENT;                               \
		*pct = 0;                                                                 \
		*period_us = PERIOD_NS / NS_PER_US;                                       \
		return NVML_SUCCESS;                                                      \
	}

IDLE_ENGINE(nvmlDeviceGetEncoderUtilization)
IDLE_ENGINE(nvmlDeviceGetDecoderUtilization)
IDLE_ENGINE(nvmlDeviceGetJpgUtilization)
IDLE_ENGINE(nvmlDeviceGetOfaUtilization)

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions,
				       unsigned int *fps, unsigned int *latency_us)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetEncoderStats, device);

	if (r)
		return r;
	if (!sessions || !fps || !latency_us)
		return NVML_ERROR_INVALID_ARGUMENT;
	*sessions = *fps = *latency_us = 0;
	return NVML_SUCCESS;
}

/* ---- per process: each one's part of the time since this process asked before ---- */

#define TRACKED_MAX 256

struct tracked {
	unsigned row;
	uint64_t start_ticks;
	uint64_t busy_ns;
};

static struct {
	uint64_t at_ns, wall_us;
	unsigned n;
	struct tracked procs[TRACKED_MAX];
} asked[SIM_DEVICES_MAX]; /* under sim_nvml.lock */

static uint64_t wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t busy_before(unsigned index, const struct sim_proc *p)
{
	for (unsigned i = 0; i < asked[index].n; i++) {
		const struct tracked *t = &asked[index].procs[i];

		if (t->row == p->row && t->start_ticks == p->start_ticks)
			return t->busy_ns;
	}
	return 0;
}

struct proc_load {
	unsigned pid, pct;
};

/* Fills @ret with the processes that worked since the last question; returns how many. */
static unsigned proc_loads(nvmlDevice_t device, struct proc_load *ret, unsigned max,
			   uint64_t *ret_wall_us)
{
	AUTO_FREE struct sim_proc *procs = calloc(SIM_PROCS_MAX, sizeof(*procs));
	unsigned n, found = 0, index = device->index;
	uint64_t now = clock_now_ns(), period;

	if (!procs)
		return 0;
	n = sim_state_procs(sim_nvml.state, index, procs, SIM_PROCS_MAX);
	pthread_mutex_lock(&sim_nvml.lock);
	period = asked[index].at_ns ? now - asked[index].at_ns : NS_PER_S;
	for (unsigned i = 0; i < n && found < max; i++) {
		uint64_t busy = size_sat_sub(procs[i].busy_total_ns, busy_before(index, &procs[i]));

		if (busy)
			ret[found++] = (struct proc_load){ sim_nvml_pid(&procs[i]),
							   percent(busy, period) };
	}
	asked[index].at_ns = now;
	asked[index].n = (unsigned)size_min(n, TRACKED_MAX);
	for (unsigned i = 0; i < asked[index].n; i++)
		asked[index].procs[i] = (struct tracked){ procs[i].row, procs[i].start_ticks,
							  procs[i].busy_total_ns };
	pthread_mutex_unlock(&sim_nvml.lock);
	*ret_wall_us = wall_us();
	return found;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
					     nvmlProcessUtilizationSample_t *samples,
					     unsigned int *count, unsigned long long since_us)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetProcessUtilization, device);
	struct proc_load loads[TRACKED_MAX];
	unsigned n, room;
	uint64_t stamp;

	if (r)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	if (!samples) { /* how much room is needed? */
		*count = TRACKED_MAX;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	if (since_us > wall_us())
		return NVML_ERROR_NOT_FOUND;
	n = proc_loads(device, loads, (unsigned)size_min(room, TRACKED_MAX), &stamp);
	*count = n;
	if (!n)
		return NVML_ERROR_NOT_FOUND;
	for (unsigned i = 0; i < n; i++)
		samples[i] = (nvmlProcessUtilizationSample_t){ .pid = loads[i].pid,
							       .timeStamp = stamp,
							       .smUtil = loads[i].pct };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
						   nvmlProcessesUtilizationInfo_t *info)
{
	nvmlReturn_t r =
		sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetProcessesUtilizationInfo, device);
	struct proc_load loads[TRACKED_MAX];
	uint64_t stamp;
	unsigned n;

	if (r)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(info->version, NVML_PROCESSES_UTILIZATION_V1);
	if (r)
		return r;
	if (!info->procUtilArray) {
		info->processSamplesCount = TRACKED_MAX;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	n = proc_loads(device, loads, (unsigned)size_min(info->processSamplesCount, TRACKED_MAX),
		       &stamp);
	info->processSamplesCount = n;
	if (!n)
		return NVML_ERROR_NOT_FOUND;
	for (unsigned i = 0; i < n; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.pid = loads[i].pid, .timeStamp = stamp, .smUtil = loads[i].pct
		};
	return NVML_SUCCESS;
}

/* ---- clocks ---- */

#define IDLE_MHZ 345 /* the H200's lowest */
#define STEP_MHZ 15

static unsigned max_mhz(nvmlDevice_t device, nvmlClockType_t type)
{
	return (type == NVML_CLOCK_MEM ? device->info->memory_clock_khz : device->info->clock_khz) /
	       1000;
}

static unsigned now_mhz(nvmlDevice_t device, nvmlClockType_t type)
{
	unsigned max = max_mhz(device, type);

	return type == NVML_CLOCK_MEM || gpu_pct(device) || max < IDLE_MHZ ? max : IDLE_MHZ;
}

static nvmlReturn_t clock_mhz(enum nvml_sym symbol, nvmlDevice_t device, nvmlClockType_t type,
			      unsigned int *mhz, bool now)
{
	nvmlReturn_t r = sim_nvml_enter_device(symbol, device);

	if (r)
		return r;
	if (!mhz || (unsigned)type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*mhz = now ? now_mhz(device, type) : max_mhz(device, type);
	return NVML_SUCCESS;
}

#define CLOCK(sym, now)                                                                \
	nvmlReturn_t sym(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz) \
	{                                                                              \
		return clock_mhz(NVML_SYM_##sym, device, type, mhz, (now));            \
	}

CLOCK(nvmlDeviceGetClockInfo, true)
CLOCK(nvmlDeviceGetMaxClockInfo, false)
CLOCK(nvmlDeviceGetApplicationsClock, false)
CLOCK(nvmlDeviceGetDefaultApplicationsClock, false)
CLOCK(nvmlDeviceGetMaxCustomerBoostClock, false)

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
				unsigned int *mhz)
{
	if ((unsigned)id >= NVML_CLOCK_ID_COUNT)
		mhz = NULL; /* refused, but after the checks that come before */
	return clock_mhz(NVML_SYM_nvmlDeviceGetClock, device, type, mhz,
			 id == NVML_CLOCK_ID_CURRENT);
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count,
						unsigned int *mhz)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetSupportedMemoryClocks, device);
	unsigned room;

	if (r)
		return r;
	if (!count || (*count && !mhz))
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	*count = 1;
	if (!room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	mhz[0] = max_mhz(device, NVML_CLOCK_MEM);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz,
						  unsigned int *count, unsigned int *mhz)
{
	nvmlReturn_t r =
		sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetSupportedGraphicsClocks, device);
	unsigned room, n, max;

	if (r)
		return r;
	if (!count || (*count && !mhz))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory_mhz != max_mhz(device, NVML_CLOCK_MEM))
		return NVML_ERROR_NOT_FOUND;
	max = max_mhz(device, NVML_CLOCK_GRAPHICS);
	n = max > IDLE_MHZ ? (max - IDLE_MHZ) / STEP_MHZ + 1 : 1;
	room = *count;
	*count = n;
	if (room < n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n; i++)
		mhz[i] = max - i * STEP_MHZ;
	return NVML_SUCCESS;
}

SIM_NVML_GET(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
SIM_NVML_GET(nvmlDeviceGetPowerState, nvmlPstates_t, NVML_PSTATE_0)
SIM_NVML_GET(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long,
	     gpu_pct(device) ? 0 : NVML_CLOCKS_GPU_IDLE)
SIM_NVML_GET(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long,
	     gpu_pct(device) ? 0 : NVML_CLOCKS_GPU_IDLE)
SIM_NVML_GET(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, NVML_CLOCKS_GPU_IDLE)
SIM_NVML_GET(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, NVML_CLOCKS_GPU_IDLE)

/* ---- power and temperature ---- */

/* idle, or what a running card draws and then up to nine tenths of its limit */
static unsigned power_mw(nvmlDevice_t device)
{
	const struct sim_device_info *info = device->info;
	unsigned pct = gpu_pct(device);

	if (!pct)
		return info->idle_power_mw;
	return (unsigned)(info->power_mw +
			  size_sat_sub(info->power_limit_mw, info->power_mw) * pct * 9 / 1000);
}

/* energy: idle all the time since boot, and the rest while busy */
static unsigned long long energy_mj(nvmlDevice_t device)
{
	const struct sim_device_info *info = device->info;
	struct sim_nvml_mark now;
	bool busy_now;

	look(device, &now, &busy_now);
	return now.at_ns / NS_PER_MS * info->idle_power_mw / 1000 +
	       now.busy_ns / NS_PER_MS * size_sat_sub(info->power_mw, info->idle_power_mw) / 1000;
}

SIM_NVML_GET(nvmlDeviceGetPowerUsage, unsigned int, power_mw(device))
SIM_NVML_GET(nvmlDeviceGetEnforcedPowerLimit, unsigned int, device->info->power_limit_mw)
SIM_NVML_GET(nvmlDeviceGetPowerManagementLimit, unsigned int, device->info->power_limit_mw)
SIM_NVML_GET(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, device->info->power_limit_mw)
SIM_NVML_GET(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy_mj(device))
SIM_NVML_GET(nvmlDeviceGetPowerSource, nvmlPowerSource_t, NVML_POWER_SOURCE_AC)

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min_mw,
							  unsigned int *max_mw)
{
	nvmlReturn_t r = sim_nvml_enter_device(
		NVML_SYM_nvmlDeviceGetPowerManagementLimitConstraints, device);

	if (r)
		return r;
	if (!min_mw || !max_mw)
		return NVML_ERROR_INVALID_ARGUMENT;
	*min_mw = device->info->power_limit_mw / 7 * 2; /* the H200: 200 of 700 W */
	*max_mw = device->info->power_limit_mw;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
				      unsigned int *celsius)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetTemperature, device);

	if (r)
		return r;
	if (!celsius || (unsigned)sensor >= NVML_TEMPERATURE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*celsius = device->info->temperature_c;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetTemperatureV, device);

	if (r)
		return r;
	if (!temperature)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(temperature->version, NVML_TEMPERATURE_V1);
	if (r)
		return r;
	if ((unsigned)temperature->sensorType >= NVML_TEMPERATURE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	temperature->temperature = (int)device->info->temperature_c;
	return NVML_SUCCESS;
}

#define SLOWDOWN_C 87

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
					       nvmlTemperatureThresholds_t type,
					       unsigned int *celsius)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetTemperatureThreshold, device);

	if (r)
		return r;
	if (!celsius || (unsigned)type >= NVML_TEMPERATURE_THRESHOLD_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	switch ((int)type) {
	case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
		*celsius = SLOWDOWN_C + 8;
		return NVML_SUCCESS;
	case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
	case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
	case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
		*celsius = SLOWDOWN_C;
		return NVML_SUCCESS;
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetMarginTemperature, device);

	if (r)
		return r;
	if (!margin)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = sim_nvml_version(margin->version, NVML_MARGIN_TEMPERATURE_V1);
	if (r)
		return r;
	margin->marginTemperature = SLOWDOWN_C - (int)device->info->temperature_c;
	return NVML_SUCCESS;
}

/* ---- the same by number ---- */

static nvmlReturn_t field(nvmlDevice_t device, nvmlFieldValue_t *v)
{
	const struct sim_device_info *info = device->info;

	v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	switch (v->fieldId) {
	case NVML_FI_DEV_ECC_CURRENT:
	case NVML_FI_DEV_ECC_PENDING:
		v->value.uiVal = NVML_FEATURE_ENABLED;
		return NVML_SUCCESS;
	case NVML_FI_DEV_MEMORY_TEMP:
		v->value.uiVal = info->temperature_c;
		return NVML_SUCCESS;
	case NVML_FI_DEV_POWER_AVERAGE:
	case NVML_FI_DEV_POWER_INSTANT:
		v->value.uiVal = power_mw(device);
		return NVML_SUCCESS;
	case NVML_FI_DEV_POWER_MIN_LIMIT:
		v->value.uiVal = info->power_limit_mw / 7 * 2;
		return NVML_SUCCESS;
	case NVML_FI_DEV_POWER_MAX_LIMIT:
	case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
	case NVML_FI_DEV_POWER_CURRENT_LIMIT:
	case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
		v->value.uiVal = info->power_limit_mw;
		return NVML_SUCCESS;
	case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
	case NVML_FI_DEV_ENERGY:
		v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		v->value.ullVal = energy_mj(device);
		return NVML_SUCCESS;
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	nvmlReturn_t r = sim_nvml_enter_device(NVML_SYM_nvmlDeviceGetFieldValues, device);

	if (r)
		return r;
	if (count <= 0 || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++) {
		values[i].timestamp = (long long)wall_us();
		values[i].latencyUsec = 0;
		values[i].nvmlReturn = field(device, &values[i]);
	}
	return NVML_SUCCESS;
}
