// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"

#define WHEN_FULL_NS   (60 * NS_PER_S)
#define ENTRY_MAX      4096 /* a line of /etc/passwd or /etc/group */
#define NEVER          UINT64_MAX
#define NO_ID          UINT32_MAX
#define DATABASE_LINES 100000

static const char *const class_words[] = { "latency", "normal", "batch", NULL };
static const char *const fail_words[] = { "closed", "open", NULL };
static const char *const unmanaged_words[] = { "alert", "kill", NULL };
static const char *const level_words[] = { "error", "warn", "info", "debug", NULL };

_Static_assert(LOG_LEVEL_ERROR == 0 && LOG_LEVEL_DEBUG == 3, "the words stand in that order");

static const struct {
	size_t size;
	const char *form;
	const char *const *words; /* of the types that are one of a few */
} types[] = {
	[CONFIG_TYPE_TIME] = { sizeof(config_TIME), "a time (500ms, 90s, 5m, 1h30m)", NULL },
	[CONFIG_TYPE_WAIT] = { sizeof(config_WAIT), "a time, or never", NULL },
	[CONFIG_TYPE_NUMBER] = { sizeof(config_NUMBER), "a whole number", NULL },
	[CONFIG_TYPE_MODE] = { sizeof(config_MODE), "four octal digits (0660)", NULL },
	[CONFIG_TYPE_CLASS] = { sizeof(config_CLASS), "latency, normal or batch", class_words },
	[CONFIG_TYPE_FAIL_POLICY] = { sizeof(config_FAIL_POLICY), "closed or open", fail_words },
	[CONFIG_TYPE_UNMANAGED] = { sizeof(config_UNMANAGED), "alert or kill", unmanaged_words },
	[CONFIG_TYPE_LOG_LEVEL] = { sizeof(config_LOG_LEVEL), "error, warn, info or debug",
				    level_words },
	[CONFIG_TYPE_PATH] = { sizeof(config_PATH), "a whole path (/…)", NULL },
	[CONFIG_TYPE_AMOUNT] = { sizeof(config_AMOUNT), "a size (2GiB), a part (5%), or 0", NULL },
	[CONFIG_TYPE_VRAM] = { sizeof(config_VRAM), "REQUEST[:LIMIT] (8GiB, 8GiB:50%), or none",
			       NULL },
	[CONFIG_TYPE_WHEN_FULL] = { sizeof(config_WHEN_FULL), "wait, wait=TIME or fail", NULL },
	[CONFIG_TYPE_PEOPLE] = { sizeof(config_PEOPLE), "a list of users and @groups", NULL },
	[CONFIG_TYPE_GROUP] = { sizeof(config_GROUP), "a group, or none", NULL },
};

size_t value_size(unsigned type)
{
	return types[type].size;
}

const char *value_form(unsigned type)
{
	return types[type].form;
}

/* ---- reading ---- */

static int read_word(const char *const *words, const char *form, const char *text, uint32_t *ret,
		     struct err *err)
{
	const char *near;

	for (uint32_t i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0) {
			*ret = i;
			return 0;
		}
	}
	near = str_nearest(text, words);
	return err_set(err, -EINVAL, "'%.60s' is not %s%s%s%s", text, form,
		       near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int read_time(const struct config_option *o, const char *text, uint64_t *ret,
		     struct err *err)
{
	char lo[CONFIG_TEXT_MAX], hi[CONFIG_TEXT_MAX];
	uint64_t ns;
	int r = parse_duration(text, &ns, err);

	if (r < 0)
		return r;
	if (o->hi && (ns < o->lo || ns > o->hi)) {
		value_print(o, &o->lo, lo);
		value_print(o, &o->hi, hi);
		return err_set(err, -ERANGE, "time '%.60s' is not in %.20s … %.20s", text, lo, hi);
	}
	*ret = ns;
	return 0;
}

static int read_mode(const struct config_option *o, const char *text, uint32_t *ret,
		     struct err *err)
{
	uint32_t mode = 0;
	size_t n = strlen(text);

	if (n != 4 || text[0] != '0' || strspn(text, "01234567") != n)
		return err_set(err, -EINVAL, "'%.60s' is not four octal digits, as in 0660", text);
	for (; *text; text++)
		mode = mode << 3 | (uint32_t)(*text - '0');
	if (mode > o->hi || (mode & 0600) != 0600)
		return err_set(err, -ERANGE, "mode %04o does not let allotd's own user in",
			       (unsigned)mode);
	*ret = mode;
	return 0;
}

static int read_path(const char *text, char *field, struct err *err)
{
	if (text[0] != '/')
		return err_set(err, -EINVAL, "'%.60s' is not a whole path: it must begin with '/'",
			       text);
	if (strlen(text) >= sizeof(config_PATH))
		return err_set(err, -ENAMETOOLONG, "path '%.60s…' is too long", text);
	(void)str_copy(field, sizeof(config_PATH), text);
	return 0;
}

static int read_amount(const char *text, struct config_amount *ret, struct err *err)
{
	struct config_amount a = { 0 };
	unsigned permille;
	int r = 0;

	if (strcmp(text, "0") == 0) {
		r = 0;
	} else if (strchr(text, '%')) {
		r = parse_percent(text, &permille, err);
		a.permille = r < 0 ? 0 : permille;
	} else {
		r = parse_size(text, &a.bytes, err);
	}
	if (r == 0)
		*ret = a;
	return r;
}

static int read_vram(const char *text, struct config_vram *ret, struct err *err)
{
	struct parse_amount request = { 0 }, limit = { 0 };
	int r = strcmp(text, "none") == 0 ? 0 : parse_vram(text, &request, &limit, err);

	if (r == 0)
		*ret = (struct config_vram){ { request.bytes, request.permille },
					     { limit.bytes, limit.permille } };
	return r;
}

static int read_when_full(const char *text, struct config_when_full *ret, struct err *err)
{
	struct config_when_full w = { .may_wait = true, .ns = WHEN_FULL_NS };
	int r = 0;

	if (strcmp(text, "fail") == 0)
		w = (struct config_when_full){ 0 };
	else if (str_starts_with(text, "wait="))
		r = parse_duration(text + 5, &w.ns, err);
	else if (strcmp(text, "wait") != 0)
		r = err_set(err, -EINVAL, "'%.60s' is neither wait, wait=TIME nor fail", text);
	if (r == 0)
		*ret = w;
	return r;
}

/* the id of a name in /etc/passwd or /etc/group; -ENOENT: not there */
static int find_id(const char *name, bool is_group, uint32_t *ret)
{
	FILE *f = fopen(is_group ? "/etc/group" : "/etc/passwd", "re");
	char line[ENTRY_MAX];
	struct passwd user, *u;
	struct group group, *g;
	int r = -ENOENT;

	if (!f)
		return -errno;
	for (unsigned i = 0; r == -ENOENT && i < DATABASE_LINES; i++) {
		int e = is_group ? fgetgrent_r(f, &group, line, sizeof(line), &g)
				 : fgetpwent_r(f, &user, line, sizeof(line), &u);

		if (e == ERANGE) /* a group with very many members: the next line */
			continue;
		if (e)
			break;
		if (strcmp(is_group ? group.gr_name : user.pw_name, name) == 0) {
			*ret = is_group ? group.gr_gid : user.pw_uid;
			r = 0;
		}
	}
	(void)fclose(f); /* only read */
	return r;
}

static int read_id(const char *name, bool is_group, uint32_t *ret, struct err *err)
{
	const char *what = is_group ? "group" : "user";
	uint64_t number;
	int r;

	if (!*name || strlen(name) >= CONFIG_NAME_MAX)
		return err_set(err, -EINVAL, "'%.60s' is no name of a %s", name, what);
	if (name[strspn(name, "0123456789")] == '\0') {
		r = parse_u64(name, 0, NO_ID - 1, &number, err);
		*ret = r < 0 ? NO_ID : (uint32_t)number;
		return r;
	}
	r = find_id(name, is_group, ret);
	if (r == -ENOENT)
		return err_set(err, r,
			       "no %s '%s' in /etc/%s: write the number of one of elsewhere", what,
			       name, is_group ? "group" : "passwd");
	return r < 0 ? err_set(err, r, "cannot read /etc/%s: %s", is_group ? "group" : "passwd",
			       strerror(-r))
		     : 0;
}

static int read_group(const char *text, struct config_group *ret, struct err *err)
{
	struct config_group g = { .is_set = true };
	int r = 0;

	if (strcmp(text, "none") == 0)
		g.is_set = false;
	else
		r = read_id(text, true, &g.gid, err);
	if (r < 0)
		return r;
	(void)str_copy(g.name, sizeof(g.name), g.is_set ? text : "");
	*ret = g;
	return 0;
}

static int add_person(const char *text, struct config_people *ret, struct err *err)
{
	struct config_person p = { .is_group = text[0] == '@' };
	int r;

	if (ret->n == CONFIG_PEOPLE_MAX)
		return err_set(err, -E2BIG, "there are more than %d names in the list",
			       CONFIG_PEOPLE_MAX);
	r = read_id(text + p.is_group, p.is_group, &p.id, err);
	if (r < 0)
		return r;
	(void)str_copy(p.name, sizeof(p.name), text + p.is_group);
	for (unsigned i = 0; i < ret->n; i++)
		if (ret->at[i].is_group == p.is_group && ret->at[i].id == p.id)
			return err_set(err, -EEXIST, "'%.60s' stands in the list twice", text);
	ret->at[ret->n++] = p;
	return 0;
}

int value_read(const struct config_option *o, const char *text, void *field, struct err *err)
{
	switch ((enum config_type)o->type) {
	case CONFIG_TYPE_TIME:
		return read_time(o, text, field, err);
	case CONFIG_TYPE_WAIT:
		if (strcmp(text, "never") == 0) {
			*(uint64_t *)field = NEVER;
			return 0;
		}
		return read_time(o, text, field, err);
	case CONFIG_TYPE_NUMBER:
		return parse_u64(text, o->lo, o->hi, field, err);
	case CONFIG_TYPE_MODE:
		return read_mode(o, text, field, err);
	case CONFIG_TYPE_CLASS:
	case CONFIG_TYPE_FAIL_POLICY:
	case CONFIG_TYPE_UNMANAGED:
	case CONFIG_TYPE_LOG_LEVEL:
		return read_word(types[o->type].words, types[o->type].form, text, field, err);
	case CONFIG_TYPE_PATH:
		return read_path(text, field, err);
	case CONFIG_TYPE_AMOUNT:
		return read_amount(text, field, err);
	case CONFIG_TYPE_VRAM:
		return read_vram(text, field, err);
	case CONFIG_TYPE_WHEN_FULL:
		return read_when_full(text, field, err);
	case CONFIG_TYPE_PEOPLE:
		return add_person(text, field, err);
	case CONFIG_TYPE_GROUP:
		return read_group(text, field, err);
	}
	return err_set(err, -EINVAL, "option of type %u", o->type);
}

/* ---- printing ---- */

/* exact: the largest unit that divides it */
static void print_size(uint64_t bytes, char *buf, size_t size)
{
	static const struct {
		uint64_t unit;
		const char *name;
	} units[] = { { TIB, "TiB" }, { GIB, "GiB" }, { MIB, "MiB" }, { KIB, "KiB" } };

	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		if (bytes % units[i].unit == 0) {
			(void)str_print(buf, size, "%llu%s",
					(unsigned long long)(bytes / units[i].unit), units[i].name);
			return;
		}
	}
	/* a fraction such as 1.3K: in millionths, as it was read */
	(void)str_print(buf, size, "%llu.%06lluKiB", (unsigned long long)(bytes / KIB),
			(unsigned long long)((bytes % KIB * 1000000 + KIB - 1) / KIB));
}

static void print_time(uint64_t ns, char *buf, size_t size)
{
	static const struct {
		uint64_t unit;
		const char *name;
	} units[] = { { 86400 * NS_PER_S, "d" },
		      { 3600 * NS_PER_S, "h" },
		      { 60 * NS_PER_S, "m" },
		      { NS_PER_S, "s" } };

	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		/* 60s as people say it; 2m, 1h */
		if (ns && ns % units[i].unit == 0 && (i != 2 || ns > units[i].unit)) {
			(void)str_print(buf, size, "%llu%s",
					(unsigned long long)(ns / units[i].unit), units[i].name);
			return;
		}
	}
	if (ns)
		(void)str_print(buf, size, "%llums", (unsigned long long)(ns / NS_PER_MS));
	else
		(void)str_copy(buf, size, "0s");
}

static void print_amount(const struct config_amount *a, const char *none, char *buf, size_t size)
{
	if (a->permille)
		(void)str_print(buf, size, a->permille % 10 ? "%u.%u%%" : "%u%%", a->permille / 10,
				a->permille % 10);
	else if (a->bytes)
		print_size(a->bytes, buf, size);
	else
		(void)str_copy(buf, size, none);
}

static void print_vram(const struct config_vram *v, char *buf)
{
	char request[48], limit[48];

	if (!v->request.bytes && !v->request.permille) {
		(void)str_copy(buf, CONFIG_TEXT_MAX, "none");
		return;
	}
	print_amount(&v->request, "0", request, sizeof(request));
	print_amount(&v->limit, "unlimited", limit, sizeof(limit));
	(void)str_print(buf, CONFIG_TEXT_MAX, strcmp(request, limit) ? "%s:%s" : "%s", request,
			limit);
}

static void print_when_full(const struct config_when_full *w, char *buf)
{
	char time[48];

	print_time(w->ns, time, sizeof(time));
	(void)str_print(buf, CONFIG_TEXT_MAX, w->may_wait ? "wait=%s" : "fail", time);
}

static void print_people(const struct config_people *p, char *buf)
{
	size_t len = 0;

	(void)str_copy(buf, CONFIG_TEXT_MAX, p->n ? "[" : "[]");
	for (unsigned i = 0; i < p->n; i++) {
		len = strlen(buf);
		/* quoted: YAML keeps @ for itself */
		(void)str_print(buf + len, CONFIG_TEXT_MAX - len, "\"%s%s\"%s",
				p->at[i].is_group ? "@" : "", p->at[i].name,
				i + 1 < p->n ? ", " : "]");
	}
}

void value_print(const struct config_option *o, const void *field, char *buf)
{
	const struct config_group *g = field;
	uint64_t number;

	switch ((enum config_type)o->type) {
	case CONFIG_TYPE_TIME:
	case CONFIG_TYPE_WAIT:
	case CONFIG_TYPE_NUMBER:
		number = *(const uint64_t *)field;
		if (o->type == CONFIG_TYPE_NUMBER)
			(void)str_print(buf, CONFIG_TEXT_MAX, "%llu", (unsigned long long)number);
		else if (number == NEVER)
			(void)str_copy(buf, CONFIG_TEXT_MAX, "never");
		else
			print_time(number, buf, CONFIG_TEXT_MAX);
		return;
	case CONFIG_TYPE_MODE:
		(void)str_print(buf, CONFIG_TEXT_MAX, "%04o", *(const uint32_t *)field);
		return;
	case CONFIG_TYPE_CLASS:
	case CONFIG_TYPE_FAIL_POLICY:
	case CONFIG_TYPE_UNMANAGED:
	case CONFIG_TYPE_LOG_LEVEL:
		(void)str_copy(buf, CONFIG_TEXT_MAX,
			       types[o->type].words[*(const uint32_t *)field]);
		return;
	case CONFIG_TYPE_PATH:
		(void)str_copy(buf, CONFIG_TEXT_MAX, field);
		return;
	case CONFIG_TYPE_AMOUNT:
		print_amount(field, "0", buf, CONFIG_TEXT_MAX);
		return;
	case CONFIG_TYPE_VRAM:
		print_vram(field, buf);
		return;
	case CONFIG_TYPE_WHEN_FULL:
		print_when_full(field, buf);
		return;
	case CONFIG_TYPE_PEOPLE:
		print_people(field, buf);
		return;
	case CONFIG_TYPE_GROUP:
		(void)str_copy(buf, CONFIG_TEXT_MAX, g->is_set ? g->name : "none");
		return;
	}
}
