// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "abi/cuda_proto.h"
#include "base/err.h"
#include "base/str.h"

#define SONAME        "libcuda.so.1"
#define CUDA_PATH_MAX 1024

#define CALLS(X)                \
	X(cuInit)               \
	X(cuDeviceGetCount)     \
	X(cuDeviceGet)          \
	X(cuDeviceGetAttribute) \
	X(cuDevicePrimaryCtxRetain)

struct api {
#define MEMBER(symbol) pfn_##symbol *symbol;
	CALLS(MEMBER)
#undef MEMBER
};

static int load(const char *driver_dir, struct api *ret, struct err *err)
{
	char path[CUDA_PATH_MAX];
	void *lib;

	if (!str_print(path, sizeof(path), "%s%s%s", driver_dir, driver_dir[0] ? "/" : "", SONAME))
		return err_set(err, -ENAMETOOLONG, "the driver's folder has too long a name");
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays */
	if (!lib)
		return err_set(err, -ENODEV, "%s", dlerror());
#define FIND(symbol)                                       \
	ret->symbol = (pfn_##symbol *)dlsym(lib, #symbol); \
	if (!ret->symbol)                                  \
		return err_set(err, -ELIBBAD, "'%s' has no " #symbol, path);
	CALLS(FIND)
#undef FIND
	return 0;
}

static int check(CUresult r, const char *call, struct err *err)
{
	return r == CUDA_SUCCESS ? 0 : err_set(err, -EIO, "%s answers %d", call, (int)r);
}

int gpu_cuda_context(const char *driver_dir, const char *uuid, struct err *err)
{
	int r, count = 0, mode = 0;
	CUcontext ctx;
	struct api api;
	CUdevice dev;

	if (setenv("CUDA_VISIBLE_DEVICES", uuid, 1) < 0)
		return err_set(err, -ENOMEM, "no memory");
	r = load(driver_dir, &api, err);
	if (r == 0)
		r = check(api.cuInit(0), "cuInit", err);
	if (r == 0)
		r = check(api.cuDeviceGetCount(&count), "cuDeviceGetCount", err);
	if (r == 0 && count != 1)
		r = err_set(err, -ENODEV, "CUDA knows no device %s", uuid);
	if (r == 0)
		r = check(api.cuDeviceGet(&dev, 0), "cuDeviceGet", err);
	if (r == 0)
		r = check(api.cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, dev),
			  "cuDeviceGetAttribute", err);
	if (r == 0 && mode != CU_COMPUTEMODE_DEFAULT)
		r = err_set(err, -EBUSY, "the compute mode of %s is %d", uuid, mode);
	if (r == 0)
		r = check(api.cuDevicePrimaryCtxRetain(&ctx, dev), "cuDevicePrimaryCtxRetain", err);
	return r;
}
