// SPDX-License-Identifier: Apache-2.0
/* A library that asks getenv in both ways in which a library can. */
#include <stdlib.h>

const char *ask_by_call(const char *name);
const char *ask_by_pointer(const char *name);

static char *(*volatile const pointer)(const char *name) = getenv;

__attribute__((visibility("default"))) const char *ask_by_call(const char *name)
{
	return getenv(name);
}

__attribute__((visibility("default"))) const char *ask_by_pointer(const char *name)
{
	return pointer(name);
}
