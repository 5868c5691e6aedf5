// SPDX-License-Identifier: Apache-2.0
/* prints "NAME number bytes" of every message, for wire.py to be compared with */
#include <stdio.h>

#include "wire/page.h"
#include "wire/wire.h"

int main(void)
{
#define WIRE_MSG(upper, lower, number, text) \
	printf("%s %d %zu\n", #upper, number, sizeof(struct wire_##lower));
#include "wire/messages.def"
	printf("PAGE 0 %zu\n", sizeof(struct credit_page));
	printf("SLOT 0 %zu\n", sizeof(struct credit_slot));
	return 0;
}
