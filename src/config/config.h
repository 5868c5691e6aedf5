// SPDX-License-Identifier: Apache-2.0
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

/*
 * The configuration of allotd: one table of options (config/options.def), and what reads, prints
 * and explains it.
 *
 * A file is YAML of a fixed shape: sections of options, and the list `gpus`.  It is read by
 * libyaml's events, so that every mistake has its line and column, and all of them are found in one
 * go.  Every value is text until base/parse.h or config/value.c has read the whole of it.  Anchors,
 * aliases, tags, merge keys and further documents are refused.  A file that has a mistake gives no
 * configuration at all: what cannot be read is never a default.
 *
 * A struct config is plain data; the caller owns it.  Nothing here logs, keeps state or knows of
 * the daemon.  Reading blocks on the file system only (regular files, 1 MiB at the most).  Any
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/paths.h"

struct err;

#define CONFIG_FILE_MAX     ((size_t)1 << 20)
#define CONFIG_MISTAKES_MAX 64 /* that are told; what comes after them is only counted */
#define CONFIG_GPUS_MAX     64
#define CONFIG_PEOPLE_MAX   32
#define CONFIG_NAME_MAX     64
#define CONFIG_TEXT_MAX     2304 /* a value, written out */

/* ---- values ---- */

/* bytes, or a part of the card; both 0: nothing */
struct config_amount {
	uint64_t bytes;
	uint32_t permille;
};

struct config_vram {
	struct config_amount request;
	struct config_amount limit; /* { 0, 0 }: the card */
};

struct config_when_full {
	bool may_wait;
	uint64_t ns;
};

struct config_person {
	bool is_group;
	uint32_t id; /* a uid or a gid */
	char name[CONFIG_NAME_MAX];
};

struct config_people {
	unsigned n;
	struct config_person at[CONFIG_PEOPLE_MAX];
};

struct config_group {
	bool is_set;
	uint32_t gid;
	char name[CONFIG_NAME_MAX];
};

/* the words of the types that are one of a few, in the order of their numbers */
enum { CONFIG_CLASS_LATENCY, CONFIG_CLASS_NORMAL, CONFIG_CLASS_BATCH };
enum { CONFIG_FAIL_CLOSED, CONFIG_FAIL_OPEN };
enum { CONFIG_UNMANAGED_ALERT, CONFIG_UNMANAGED_KILL };

typedef uint64_t config_TIME; /* ns */
typedef uint64_t config_WAIT; /* ns; UINT64_MAX: never */
typedef uint64_t config_NUMBER;
typedef uint32_t config_MODE;
typedef uint32_t config_CLASS;
typedef uint32_t config_FAIL_POLICY;
typedef uint32_t config_UNMANAGED;
typedef uint32_t config_LOG_LEVEL; /* enum log_level */
typedef char config_PATH[PATHS_MAX];
typedef struct config_amount config_AMOUNT;
typedef struct config_vram config_VRAM;
typedef struct config_when_full config_WHEN_FULL;
typedef struct config_people config_PEOPLE;
typedef struct config_group config_GROUP;

/* ---- the table ---- */

enum config_id {
#define CONFIG_SECTION(section, help)
#define CONFIG_OPTION(section, name, type, text, lo, hi, flags, help) CONFIG_##section##_##name,
#define CONFIG_GPU_OPTION(name, type, text, lo, hi, flags, help)      CONFIG_gpu_##name,
#include "config/options.def"
	CONFIG_N_OPTIONS
};

enum { /* the GPU options among themselves: bits of config_gpu_entry.set */
#define CONFIG_SECTION(section, help)
#define CONFIG_OPTION(section, name, type, text, lo, hi, flags, help)
#define CONFIG_GPU_OPTION(name, type, text, lo, hi, flags, help) CONFIG_GPU_##name,
#include "config/options.def"
       CONFIG_N_GPU_OPTIONS
};

#define CONFIG_RESTART     (1u << 0) /* takes effect at the next start */
#define CONFIG_SYSTEM_ONLY (1u << 1) /* a mistake in a user's own configuration */

struct config_option {
	const char *section; /* "gpu_defaults" for those of a GPU */
	const char *name;
	unsigned type;    /* config/value.h */
	const char *text; /* the default, as it would be written */
	uint64_t lo, hi;
	unsigned flags;
	const char *help;
	size_t offset; /* in struct config; of a GPU option: in struct config_gpu */
	bool is_gpu;
};

struct config_section {
	const char *name;
	const char *help;
};

extern const struct config_option config_options[CONFIG_N_OPTIONS];
extern const struct config_section config_sections[]; /* ends with a NULL name */

/* ---- a configuration ---- */

enum config_source {
	CONFIG_FROM_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_FLAG,
	CONFIG_FROM_ENVIRONMENT,
};

struct config_origin {
	enum config_source source;
	unsigned line; /* of the file */
};

/* what holds for one GPU */
struct config_gpu {
#define CONFIG_SECTION(section, help)
#define CONFIG_OPTION(section, name, type, text, lo, hi, flags, help)
#define CONFIG_GPU_OPTION(name, type, text, lo, hi, flags, help) config_##type name;
#include "config/options.def"
};

struct config_gpu_id {
	bool has_index, has_uuid, has_pci;
	uint32_t index;
	uint8_t uuid[16];
	uint32_t pci[4]; /* domain, bus, device, function */
};

/* an entry of `gpus` */
struct config_gpu_entry {
	char name[CONFIG_NAME_MAX]; /* id or model, as written */
	bool is_model;              /* name is a pattern, as the shell has them */
	struct config_gpu_id id;
	unsigned line;
	uint32_t set; /* options that it says, bits 1 << CONFIG_GPU_… */
	unsigned lines[CONFIG_N_GPU_OPTIONS];
	struct config_gpu values;
};

struct config {
	struct config_gpu gpu; /* gpu_defaults */
#define CONFIG_SECTION(section, help)
#define CONFIG_OPTION(section, name, type, text, lo, hi, flags, help) \
	config_##type section##_##name;
#define CONFIG_GPU_OPTION(name, type, text, lo, hi, flags, help)
#include "config/options.def"
	unsigned n_gpus;
	struct config_gpu_entry gpus[CONFIG_GPUS_MAX];
	struct config_origin origin[CONFIG_N_OPTIONS];
	char file[PATHS_MAX]; /* that it was read from; "" = none */
};

/** config_defaults - every option as its table says */
void config_defaults(struct config *ret);

/** config_gpu - what holds for this GPU; @pci as "0000:83:00.0"; later entries of `gpus` win */
struct config_gpu config_gpu(const struct config *c, const uint8_t uuid[16], unsigned index,
			     const char *pci, const char *model);

/** config_entry_is_for - does this entry of `gpus` mean that GPU? */
bool config_entry_is_for(const struct config_gpu_entry *e, const uint8_t uuid[16], unsigned index,
			 const char *pci, const char *model);

/** config_is_admin - does the configuration let this person change everybody's jobs? */
bool config_is_admin(const struct config *c, uint32_t uid, const uint32_t *gids, unsigned n_gids);

/** config_override - what a flag or the environment says goes before the file */
int config_override(struct config *c, enum config_id id, enum config_source source,
		    const char *text, struct err *err);

/** config_text - an option's value as one would write it */
void config_text(const struct config *c, enum config_id id, char buf[CONFIG_TEXT_MAX]);

/** config_gpu_text - a value of struct config_gpu, by CONFIG_gpu_… */
void config_gpu_text(const struct config_gpu *g, enum config_id id, char buf[CONFIG_TEXT_MAX]);

/** an option as it is listed: `gpus` entries stand there as "gpus[NAME].option" */
struct config_row {
	char key[128];
	char value[CONFIG_TEXT_MAX];
	char usual[CONFIG_TEXT_MAX]; /* the default */
	struct config_origin origin;
	unsigned flags;
	int id; /* enum config_id; -1: of an entry of `gpus` */
};

/** config_each - every option of a configuration, in the order of the table */
void config_each(const struct config *c, void (*each)(const struct config_row *row, void *context),
		 void *context);

/** config_copy_option - make @to's value of an option (and its origin) that of @from */
void config_copy_option(struct config *to, const struct config *from, enum config_id id);

/** config_origin_text - "default", "FILE:12", "flag", "environment" */
void config_origin_text(const struct config *c, struct config_origin o, char *buf, size_t size);

/* ---- reading ---- */

enum config_mode {
	CONFIG_MODE_ANY, /* for looking a file over: options of every mode */
	CONFIG_MODE_SYSTEM,
	CONFIG_MODE_USER,
};

struct config_mistake {
	unsigned line, column; /* from 1; 0: of the file as a whole */
	char text[256];
};

struct config_report {
	unsigned n;      /* of at[] */
	unsigned n_more; /* mistakes beyond */
	struct config_mistake at[CONFIG_MISTAKES_MAX];
};

/**
 * config_read_text - a file's content
 * @name: of the file, for origins
 * Returns 0 with @ret filled; -EINVAL with the mistakes in @report (@ret untouched).
 */
int config_read_text(const char *text, size_t len, const char *name, enum config_mode mode,
		     struct config *ret, struct config_report *report);

/**
 * config_read_file - the same of a file
 *
 * It must be regular, of 1 MiB at the most, and not writable by others.  For the machine's service
 * it must belong to root (or to whom the service runs as), for a user's daemon to that user or
 * root. Returns also -ENOENT (no such file), -EACCES and other errno; the report says it, too.
 */
int config_read_file(const char *path, enum config_mode mode, struct config *ret,
		     struct config_report *report);

/** config_mistake_text - "FILE:3:7: key '…' …", or "FILE: …" */
void config_mistake_text(const char *file, const struct config_mistake *m, char *buf, size_t size);

/** config_default_path - where it lies when nobody says; 0 or -ENAMETOOLONG */
int config_default_path(bool is_system, char *buf, size_t size);

/* ---- printing ---- */

/** config_print_default - a commented file with every default of that mode, by @put, piece by piece
 */
void config_print_default(enum config_mode mode, void (*put)(const char *text, void *context),
			  void *context);

#endif
