// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "config/gpu_id.h"
#include "config/value.h"

const struct config_option config_options[CONFIG_N_OPTIONS] = {
#define CONFIG_SECTION(section, help)
#define CONFIG_OPTION(section, name, type, text, lo, hi, flags, help)                 \
	[CONFIG_##section##_##                                                        \
		name] = { #section, #name, CONFIG_TYPE_##type,                        \
			  text,     lo,    hi,                                        \
			  flags,    help,  offsetof(struct config, section##_##name), \
			  false },
#define CONFIG_GPU_OPTION(name, type, text, lo, hi, flags, help)   \
	[CONFIG_gpu_##name] = { "gpu_defaults",                    \
				#name,                             \
				CONFIG_TYPE_##type,                \
				text,                              \
				lo,                                \
				hi,                                \
				flags,                             \
				help,                              \
				offsetof(struct config_gpu, name), \
				true },
#include "config/options.def"
};

const struct config_section config_sections[] = {
#define CONFIG_SECTION(section, help) { #section, help },
#define CONFIG_OPTION(section, name, type, text, lo, hi, flags, help)
#define CONFIG_GPU_OPTION(name, type, text, lo, hi, flags, help)
#include "config/options.def"
	{ NULL, NULL },
};

/* a GPU option's number is its bit, too */
_Static_assert((int)CONFIG_gpu_reserve == (int)CONFIG_GPU_reserve && CONFIG_N_GPU_OPTIONS <= 32,
	       "the GPU options come first");

static void *field_of(struct config *c, enum config_id id)
{
	const struct config_option *o = &config_options[id];

	return (char *)(o->is_gpu ? (void *)&c->gpu : (void *)c) + o->offset;
}

void config_defaults(struct config *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		/* an empty path is the one that the mode has, an empty list nobody */
		int r = *o->text ? value_read(o, o->text, field_of(ret, i), NULL) : 0;

		assert(r == 0); /* the table's own */
		(void)r;
	}
}

bool config_entry_is_for(const struct config_gpu_entry *e, const uint8_t uuid[16], unsigned index,
			 const char *pci, const char *model)
{
	if (e->is_model)
		return fnmatch(e->name, model, 0) == 0;
	return gpu_id_is(&e->id, uuid, index, pci);
}

struct config_gpu config_gpu(const struct config *c, const uint8_t uuid[16], unsigned index,
			     const char *pci, const char *model)
{
	struct config_gpu g = c->gpu;

	for (unsigned i = 0; i < c->n_gpus; i++) {
		const struct config_gpu_entry *e = &c->gpus[i];

		if (!config_entry_is_for(e, uuid, index, pci, model))
			continue;
		for (unsigned id = 0; id < CONFIG_N_GPU_OPTIONS; id++) {
			size_t at = config_options[id].offset;

			if (e->set & 1u << id)
				memcpy((char *)&g + at, (const char *)&e->values + at,
				       value_size(config_options[id].type));
		}
	}
	return g;
}

bool config_is_admin(const struct config *c, uint32_t uid, const uint32_t *gids, unsigned n_gids)
{
	for (unsigned i = 0; i < c->daemon_admins.n; i++) {
		const struct config_person *p = &c->daemon_admins.at[i];

		if (!p->is_group && p->id == uid)
			return true;
		for (unsigned k = 0; p->is_group && k < n_gids; k++)
			if (p->id == gids[k])
				return true;
	}
	return false;
}

int config_override(struct config *c, enum config_id id, enum config_source source,
		    const char *text, struct err *err)
{
	int r = value_read(&config_options[id], text, field_of(c, id), err);

	if (r == 0)
		c->origin[id] = (struct config_origin){ .source = source };
	return r;
}

void config_text(const struct config *c, enum config_id id, char buf[CONFIG_TEXT_MAX])
{
	const struct config_option *o = &config_options[id];
	const void *base = o->is_gpu ? (const void *)&c->gpu : (const void *)c;

	value_print(o, (const char *)base + o->offset, buf);
}

void config_gpu_text(const struct config_gpu *g, enum config_id id, char buf[CONFIG_TEXT_MAX])
{
	value_print(&config_options[id], (const char *)g + config_options[id].offset, buf);
}

static void each_of_entry(const struct config *c, const struct config_gpu_entry *e,
			  void (*each)(const struct config_row *row, void *context), void *context)
{
	for (unsigned id = 0; id < CONFIG_N_GPU_OPTIONS; id++) {
		struct config_row row = { .origin = { CONFIG_FROM_FILE, e->lines[id] },
					  .flags = config_options[id].flags,
					  .id = -1 };

		if (!(e->set & 1u << id))
			continue;
		(void)str_print(row.key, sizeof(row.key), "gpus[%s].%s", e->name,
				config_options[id].name);
		config_gpu_text(&e->values, id, row.value);
		config_gpu_text(&c->gpu, id, row.usual);
		each(&row, context);
	}
}

void config_each(const struct config *c, void (*each)(const struct config_row *row, void *context),
		 void *context)
{
	for (unsigned id = 0; id < CONFIG_N_OPTIONS; id++) {
		const struct config_option *o = &config_options[id];
		struct config_row row = { .origin = c->origin[id],
					  .flags = o->flags,
					  .id = (int)id };

		(void)str_print(row.key, sizeof(row.key), "%s.%s", o->section, o->name);
		(void)str_copy(row.usual, sizeof(row.usual), o->text);
		config_text(c, id, row.value);
		each(&row, context);
		for (unsigned i = 0; id == CONFIG_N_GPU_OPTIONS - 1 && i < c->n_gpus; i++)
			each_of_entry(c, &c->gpus[i], each, context);
	}
}

void config_copy_option(struct config *to, const struct config *from, enum config_id id)
{
	const struct config_option *o = &config_options[id];
	const void *base = o->is_gpu ? (const void *)&from->gpu : (const void *)from;

	memcpy(field_of(to, id), (const char *)base + o->offset, value_size(o->type));
	to->origin[id] = from->origin[id];
}

void config_origin_text(const struct config *c, struct config_origin o, char *buf, size_t size)
{
	switch (o.source) {
	case CONFIG_FROM_DEFAULT:
		(void)str_copy(buf, size, "default");
		return;
	case CONFIG_FROM_FILE:
		(void)str_print(buf, size, "%s:%u", c->file, o.line);
		return;
	case CONFIG_FROM_FLAG:
		(void)str_copy(buf, size, "flag");
		return;
	case CONFIG_FROM_ENVIRONMENT:
		(void)str_copy(buf, size, "environment");
		return;
	}
}

int config_default_path(bool is_system, char *buf, size_t size)
{
	if (!is_system)
		return paths_user_config(buf, size);
	return str_copy(buf, size, PATHS_SYSTEM_CONFIG) ? 0 : -ENAMETOOLONG;
}

void config_mistake_text(const char *file, const struct config_mistake *m, char *buf, size_t size)
{
	if (m->line)
		(void)str_print(buf, size, "%s:%u:%u: %s", file, m->line, m->column, m->text);
	else
		(void)str_print(buf, size, "%s: %s", file, m->text);
}
