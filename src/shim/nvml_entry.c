// SPDX-License-Identifier: Apache-2.0
#include "shim/entry.h"

#include <errno.h>

#include "abi/nvml_names.h"
#include "shim/attach.h"
#include "shim/nvml_lease.h"

/*
 * What liballot-nvml.so answers where the driver cannot.
 *
 * A program asks for libnvidia-ml.so.1 and finds us although the machine has none: nvmlInit then
 * says LIBRARY_NOT_FOUND, which is what bindings report when the file is missing, and every other
 * call UNINITIALIZED.  A name that this driver does not have yet, or no longer, is
 * FUNCTION_NOT_FOUND, also as bindings put it.  Texts of results are still told.
 *
 * Inside a job nothing of the device is set: a mode, clock or layout that one tenant changes holds
 * for all, and root in a container is root for NVML.  What the table marks NVML_SET is answered
 * NO_PERMISSION there, as to any ordinary user; outside of jobs the driver decides.
 */

const enum wire_attach_role attach_role = WIRE_ROLE_OBSERVER;

static nvmlReturn_t function_not_found(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static nvmlReturn_t uninitialized(void)
{
	return NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t library_not_found(void)
{
	return NVML_ERROR_LIBRARY_NOT_FOUND;
}

static void *no_driver(unsigned slot, int error)
{
	switch (slot) {
	case NVML_SYM_nvmlErrorString:
		return (void *)nvml_result_text;
	case NVML_SYM_nvmlInit:
	case NVML_SYM_nvmlInit_v2:
	case NVML_SYM_nvmlInitWithFlags:
		return error == -EALREADY ? (void *)uninitialized : (void *)library_not_found;
	default:
		return (void *)uninitialized;
	}
}

static nvmlReturn_t no_permission(void)
{
	return NVML_ERROR_NO_PERMISSION;
}

static void *gate(unsigned slot)
{
	return nvml_sets[slot] && nvml_lease_is_job() ? (void *)no_permission : NULL;
}

static const char *symbol_name(unsigned slot)
{
	return nvml_names[slot];
}

const struct entry_lib entry_lib = {
	.soname = "libnvidia-ml.so.1",
	.count = NVML_SYM_COUNT,
	.retry = NVML_SYM_nvmlInit_v2,
	.name = symbol_name,
	.missing = (void *)function_not_found,
	.no_driver = no_driver,
	.gate = gate,
};
