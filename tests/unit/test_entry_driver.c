// SPDX-License-Identifier: Apache-2.0
/* The driver that test_entry.c opens. */
#define EXPORT __attribute__((visibility("default")))

EXPORT double entry_test_sum(int a, int b, int c, int d, int e, int f, int g, double h, double i);
EXPORT double entry_test_sum(int a, int b, int c, int d, int e, int f, int g, double h, double i)
{
	return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f + 1000000 * g + h * i;
}

EXPORT int entry_test_hooked(int n);
EXPORT int entry_test_hooked(int n)
{
	return n + 1;
}

EXPORT int entry_test_retry(void);
EXPORT int entry_test_retry(void)
{
	return 5;
}
