// SPDX-License-Identifier: Apache-2.0
/* whom the policy `kill` ends, and whom never: pure; unmanaged.h */
#include "base/cleanup.h"
#include "daemon/sampler_wire.h"
#include "daemon/unmanaged.h"

enum unmanaged_verdict unmanaged_judge(const struct unmanaged_facts *f, uint64_t since_ticks)
{
	/* what NVML says needs no look at the process */
	if (f->kinds & SAMPLER_PROC_GRAPHICS)
		return UNMANAGED_SPARE_GRAPHICS;
	if (f->kinds & SAMPLER_PROC_MPS)
		return UNMANAGED_SPARE_MPS;
	if (!(f->kinds & SAMPLER_PROC_COMPUTE))
		return UNMANAGED_SPARE_NO_COMPUTE;
	if (!f->is_known)
		return UNMANAGED_SPARE_UNKNOWN;
	if (f->is_own)
		return UNMANAGED_SPARE_OWN;
	if (f->is_mps)
		return UNMANAGED_SPARE_MPS;
	if (f->is_display)
		return UNMANAGED_SPARE_DISPLAY;
	if (f->uid == 0 && !f->is_foreign)
		return UNMANAGED_SPARE_ROOT;
	if (since_ticks && f->start_ticks <= since_ticks)
		return UNMANAGED_SPARE_BEFORE;
	return UNMANAGED_END;
}

const char *unmanaged_verdict_text(enum unmanaged_verdict v)
{
	static const char *const texts[] = {
		[UNMANAGED_END] = "",
		[UNMANAGED_SPARE_UNKNOWN] = "who it is cannot be seen",
		[UNMANAGED_SPARE_GRAPHICS] = "it draws on the screen",
		[UNMANAGED_SPARE_MPS] = "it works through MPS",
		[UNMANAGED_SPARE_NO_COMPUTE] = "it computes nothing",
		[UNMANAGED_SPARE_DISPLAY] = "it is a display server or manager",
		[UNMANAGED_SPARE_OWN] = "it is allotd's own",
		[UNMANAGED_SPARE_ROOT] = "it is root's",
		[UNMANAGED_SPARE_BEFORE] = "it ran before the policy was set",
	};

	return (unsigned)v < ARRAY_SIZE(texts) ? texts[v] : "?";
}
