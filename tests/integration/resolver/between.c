// SPDX-License-Identifier: Apache-2.0
/* Another preloaded library that redirects execve, as tools that follow child processes do. */
#include <dlfcn.h>
#include <unistd.h>

typedef int execve_fn(const char *path, char *const argv[], char *const envp[]);

__attribute__((visibility("default"))) int execve(const char *path, char *const argv[],
						  char *const envp[])
{
	if (write(STDOUT_FILENO, "between\n", 8) != 8)
		return -1;
	return ((execve_fn *)dlsym(RTLD_NEXT, "execve"))(path, argv, envp);
}
