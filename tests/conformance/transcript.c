// SPDX-License-Identifier: Apache-2.0
#include "conform.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi/cuda_names.h"

#define LABELS_MAX 512

struct label {
	uint64_t value;
	uint64_t size; /* 0: only the exact value */
	char kind;     /* P or H */
	int number;
};

static struct {
	int fd;
	bool open; /* a line has begun */
	struct label labels[LABELS_MAX];
	int label_count;
	int last_number[2]; /* of P, of H */
} out = { .fd = 1 };

static void put(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(out.fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

void out_open(int fd)
{
	out.fd = fd;
	out.open = false;
}

int out_fd(void)
{
	return out.fd;
}

void out_flush(void)
{
	if (out.open)
		put("\n", 1);
	out.open = false;
}

void out_append(const char *format, ...)
{
	char buf[1024];
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(buf, sizeof(buf), format, ap);
	va_end(ap);
	if (n > 0)
		put(buf, (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1);
	out.open = true;
}

void out_line(const char *format, ...)
{
	char buf[4096];
	va_list ap;
	out_flush();
	va_start(ap, format);
	int n = vsnprintf(buf, sizeof(buf), format, ap);
	va_end(ap);
	if (n > 0)
		put(buf, (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1);
	put("\n", 1);
}

void out_begin(const char *text)
{
	out_flush();
	out_append("%s", text);
}

const char *result_text(CUresult result, char buf[static 40])
{
	const char *name = cuda_result_name(result);
	if (name)
		return name;
	snprintf(buf, 40, "CUresult(%d)", (int)result);
	return buf;
}

CUresult out_end(CUresult result)
{
	char buf[40];
	out_append(" → %s", result_text(result, buf));
	return result;
}

CUresult out_no_symbol(void)
{
	out_append(" → no such symbol");
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult quiet_no_symbol(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

void out_forget_labels(void)
{
	out.label_count = 0;
	out.last_number[0] = out.last_number[1] = 0;
}

static bool is_poison(uint64_t value)
{
	return value == POISON_64 || value == POISON_32;
}

/* the newest label that covers @value */
static const struct label *find_label(uint64_t value, char kind)
{
	for (int i = out.label_count - 1; i >= 0; i--) {
		const struct label *l = &out.labels[i];
		if (l->kind != kind)
			continue;
		if (value == l->value || (value > l->value && value - l->value < l->size))
			return l;
	}
	return NULL;
}

static const struct label *add_label(uint64_t value, uint64_t size, char kind)
{
	if (out.label_count == LABELS_MAX)
		out.label_count--;
	struct label *l = &out.labels[out.label_count++];
	*l = (struct label){ value, size, kind, ++out.last_number[kind == 'H'] };
	return l;
}

static void append_label(const char *name, uint64_t value, uint64_t size, char kind, bool fresh)
{
	if (is_poison(value)) {
		out_append(" %s=untouched", name);
		return;
	}
	if (value == 0) {
		out_append(" %s=0", name);
		return;
	}
	if (kind == 'H' && value <= 2) {
		out_append(" %s=%" PRIu64, name, value);
		return;
	}
	const struct label *l = fresh ? NULL : find_label(value, kind);
	if (!l)
		l = add_label(value, size, kind);
	if (value == l->value)
		out_append(" %s=%c%d", name, kind, l->number);
	else
		out_append(" %s=%c%d+0x%" PRIx64, name, kind, l->number, value - l->value);
	if (fresh && kind == 'P' && value % 256)
		out_append(" (align %" PRIu64 ")", value & -value);
}

void out_ptr(const char *name, uint64_t value)
{
	append_label(name, value, 0, 'P', false);
}

void out_new_ptr(const char *name, uint64_t value, uint64_t size)
{
	append_label(name, value, size, 'P', true);
}

void out_handle(const char *name, uint64_t value)
{
	append_label(name, value, 0, 'H', false);
}

void out_new_handle(const char *name, uint64_t value)
{
	append_label(name, value, 0, 'H', true);
}

void out_int(const char *name, long long value)
{
	if (value == POISON_32 || value == (long long)POISON_64)
		out_append(" %s=untouched", name);
	else
		out_append(" %s=%lld", name, value);
}

void out_size(const char *name, uint64_t value)
{
	if (is_poison(value))
		out_append(" %s=untouched", name);
	else
		out_append(" %s=%" PRIu64, name, value);
}

void out_hex(const char *name, uint64_t value)
{
	if (is_poison(value))
		out_append(" %s=untouched", name);
	else
		out_append(" %s=0x%" PRIx64, name, value);
}

void out_str(const char *name, const char *value)
{
	if (!value)
		out_append(" %s=NULL", name);
	else if ((uintptr_t)value == POISON_64)
		out_append(" %s=untouched", name);
	else
		out_append(" %s=\"%s\"", name, value);
}
