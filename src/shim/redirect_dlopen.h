// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_REDIRECT_DLOPEN_H
#define SHIM_REDIRECT_DLOPEN_H

/*
 * dlopen of the driver's libraries, however they are spelled, gives ours.
 *
 * The linker itself gives us for "libcuda.so.1", our SONAME. A name that it would look up anew
 * ("libcuda.so", "libcuda.so.580.95.05", "/usr/lib64/libcuda.so.1") is replaced by our own file if
 * its last part begins with libcuda.so, or by that of the library beside us if it begins with
 * libnvidia-ml.so. With a path, only when that file exists: a program that tries a list of places
 * finds the driver exactly where it would bare, and gets the same error text elsewhere. Flags are
 * not touched. With RTLD_NOLOAD we are found, since we are loaded.
 *
 * dlmopen is another affair: other namespaces have libraries of their own, and we open the real
 * driver by it.
 */

/* two registers; name is what to open, next the function to open it with */
struct redirect_dlopen {
	const char *name;
	void *next;
};

/** redirect_dlopen - called by dlopen (redirect_dlopen.S); never blocks in the linker, keeps errno
 */
struct redirect_dlopen redirect_dlopen(const char *name);

#endif
