// SPDX-License-Identifier: Apache-2.0
#ifndef CONFORMANCE_CONFORM_H
#define CONFORMANCE_CONFORM_H

/*
 * Call sequences against a libcuda, and the transcript that they leave.
 *
 * The program knows nothing of what is right: it calls and writes down what came back, in a form
 * that does not depend on the run. Recorded once on a real card, the transcript is the truth that
 * the simulator and the shim are compared with (compare.py).
 *
 * A sequence is a function of a family file, named in that file's table. Sequences of one group run
 * in one process, in the table's order, and share its primary context; groups run in parallel,
 * except those with ALONE, which look at the memory of the whole card. What a sequence allocates
 * it frees. If one kills its process, that is noted and the group goes on after it.
 *
 * How a line comes about: CALL(cuMemAlloc_v2, &p, 4096) writes its own source text, calls, and adds
 * the code's name; NEWPTR(p, 4096) and its like add outputs to the same line; the next CALL begins
 * a new one. Pointers and handles become labels in order of appearance (P1, P1+0x200, H1), an
 * output that still holds POISON is "untouched". Text is on disk before a call is made.
 *
 * Threads: the transcript is one; sequences with threads let one run at a time.
 */

#include <stdbool.h>

#include "abi/cuda_proto.h"

/* what a sequence needs before it starts */
#define INIT    (1u << 0) /* cuInit(0) has been called */
#define CTX     (1u << 1) /* the primary context of device 0 is current */
#define KERNELS (1u << 2) /* the module of kernels.c is loaded */
#define ALONE   (1u << 3) /* no other process of ours on the card */
#define PAIR    (1u << 4) /* two GPUs; recorded and replayed apart from the rest (--pair) */

struct sequence {
	const char *group;
	const char *name;
	unsigned int needs;
	void (*run)(void);
};

struct family {
	const struct sequence *sequences;
	size_t count;
};

#define FAMILY(name, ...)                                             \
	static const struct sequence name##_list[] = { __VA_ARGS__ }; \
	const struct family name##_family = { name##_list,            \
					      sizeof(name##_list) / sizeof(name##_list[0]) }

/* every family file, once */
#define FAMILIES(F)     \
	F(init)         \
	F(device)       \
	F(misc)         \
	F(resolver)     \
	F(legacy)       \
	F(context)      \
	F(memory)       \
	F(pointer)      \
	F(copy)         \
	F(host)         \
	F(vmm)          \
	F(vmm_share)    \
	F(pool)         \
	F(array)        \
	F(stream)       \
	F(event)        \
	F(module)       \
	F(launch)       \
	F(capture)      \
	F(unsafe)       \
	F(graph)        \
	F(graph_memory) \
	F(process)      \
	F(pair)         \
	F(visible)      \
	F(share_own)    \
	F(share)        \
	F(nvml)

#define DECLARE_FAMILY(name) extern const struct family name##_family;
FAMILIES(DECLARE_FAMILY)
#undef DECLARE_FAMILY

/* the library under test; NULL for what it does not export */
struct driver {
#define CU_CALL(symbol, api, since, stream, params) pfn_##symbol *symbol;
#include "abi/cuda.def"
};
extern struct driver drv;
extern const char *conf_lib_path;
extern const char *conf_nvml_path;

/** driver_open - load @path and fill drv; exits with a message if that fails */
void driver_open(const char *path);
/** driver_symbol - dlsym in the library under test */
void *driver_symbol(const char *name);
/** driver_name_of - the exported symbol at @address, "NULL", or "?" */
const char *driver_name_of(const void *address);
/** driver_for_each_alias - call @each for each table name that is exported, with its address */
void driver_for_each(void (*each)(const char *name, const void *address));

/* the kernels of kernels.c */
struct kernels {
	CUmodule module;
	CUfunction fill;  /* (u64 ptr, u32 value, u64 n): n words */
	CUfunction add;   /* (u64 ptr, u32 value, u64 n) */
	CUfunction saxpy; /* (u64 y, u64 x, f32 a, u64 n) */
	CUfunction sum;   /* (u64 in, u64 n, u64 out): one thread sums n u64 */
	CUfunction spin;  /* (u64 ns) */
	CUfunction empty;
};
extern struct kernels kern;
extern const char kernels_ptx[];

/* the primary context of this process's group, for sequences with CTX */
extern CUcontext conf_ctx;

/* transcript.c */
#define POISON_64 0x5a5a5a5a5a5a5a5aull
#define POISON_32 0x5a5a5a5a

void out_begin(const char *text);
CUresult out_end(CUresult result);
CUresult out_no_symbol(void);
CUresult quiet_no_symbol(void);
void out_append(const char *format, ...) __attribute__((format(printf, 1, 2)));
void out_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void out_flush(void);
void out_open(int fd);
int out_fd(void);
void out_forget_labels(void);
void out_ptr(const char *name, uint64_t value);
void out_new_ptr(const char *name, uint64_t value, uint64_t size);
void out_handle(const char *name, uint64_t value);
void out_new_handle(const char *name, uint64_t value);
void out_int(const char *name, long long value);
void out_size(const char *name, uint64_t value);
void out_hex(const char *name, uint64_t value);
void out_str(const char *name, const char *value);
const char *result_text(CUresult result, char buf[static 40]);

/* Calls: a symbol that the library lacks is noted and counts as NOT_SUPPORTED. */
#define CALL(fn, ...)                         \
	(out_begin(#fn "(" #__VA_ARGS__ ")"), \
	 drv.fn ? out_end(drv.fn(__VA_ARGS__)) : out_no_symbol())
/* the same without a line of the transcript: for setting up */
#define QUIET(fn, ...) (drv.fn ? drv.fn(__VA_ARGS__) : quiet_no_symbol())

#define PTR(v)            out_ptr(#v, (uint64_t)(uintptr_t)(v))
#define NEWPTR(v, size)   out_new_ptr(#v, (uint64_t)(uintptr_t)(v), size)
#define HANDLE(v)         out_handle(#v, (uint64_t)(uintptr_t)(v))
#define NEWHANDLE(v)      out_new_handle(#v, (uint64_t)(uintptr_t)(v))
#define INT(v)            out_int(#v, (long long)(v))
#define SIZE(v)           out_size(#v, (uint64_t)(v))
#define HEX(v)            out_hex(#v, (uint64_t)(v))
#define STR(v)            out_str(#v, v)
#define YES(condition)    out_append(" [%s] %s", #condition, (condition) ? "yes" : "no")
#define NOTE(...)         out_line("# " __VA_ARGS__)
#define POISONED_PTR(v)   CUdeviceptr v = POISON_64
#define POISONED_SIZE(v)  size_t v = POISON_64
#define POISONED_INT(v)   int v = POISON_32
#define POISONED_UINT(v)  unsigned int v = POISON_32
#define POISONED(type, v) type v = (type)(uintptr_t)POISON_64

/* helpers.c */
/** mem_mark - remember the card's free memory; mem_delta - a line with what was taken since */
void mem_mark(void);
void mem_delta(const char *what);
/** data_u32 - copy @bytes at @p to the host and add to the line what is there */
void data_u32(CUdeviceptr p, size_t bytes);
/** on_thread - run @fn(@arg) on a new thread and wait for it */
void on_thread(void (*fn)(void *), void *arg);
/** alloc_quiet - device memory filled with @value, no line; the transcript knows it as P<n> */
CUdeviceptr alloc_quiet(size_t bytes, unsigned int value);
/** spin_quiet - queue a kernel of @ns on @stream, no line */
void spin_quiet(CUstream stream, uint64_t ns);
/** fill_quiet - queue a fill of @words words on @stream; the code of the launch */
CUresult fill_quiet(CUdeviceptr p, unsigned int value, uint64_t words, CUstream stream);
/** run_helper - run this program again with --helper @what @arg, its lines in our transcript */
void run_helper(const char *what, const char *arg);
/** helper_main - what such a process does; in process.c */
int helper_main(const char *what, const char *arg);
/** helper_visible - which devices there are; in seq_visible.c */
int helper_visible(const char *arg);

#define MIB (1024ull * 1024)

#endif
