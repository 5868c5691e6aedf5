// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/ptx.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_ELF     0x464c457fu
#define MAGIC_FATBIN  0xba55ed50u
#define MAGIC_FATBINC 0x466243b1u /* the wrapper that nvcc puts around a fat binary */
#define MAGIC_ARCHIVE 0x72613c21u /* "!<ar" */

#define ELF_MACHINE_AT  18
#define ELF_MACHINE_GPU 190

/* what the compiler of CUDA 13.0 knows */
#define PTX_VERSION_MAX 90
#define TARGET_MAX      121

/* a cursor over the text without comments: one token at a time */
struct scan {
	const char *at;
	const char *tok;
	size_t len;
};

static void skip_blank(struct scan *s)
{
	for (;;) {
		while (isspace((unsigned char)*s->at))
			s->at++;
		if (s->at[0] == '/' && s->at[1] == '/') {
			s->at += strcspn(s->at, "\n");
		} else if (s->at[0] == '/' && s->at[1] == '*') {
			const char *end = strstr(s->at + 2, "*/");

			s->at = end ? end + 2 : s->at + strlen(s->at);
		} else {
			return;
		}
	}
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static bool next(struct scan *s)
{
	skip_blank(s);
	s->tok = s->at;
	if (!*s->at)
		return false;
	if (*s->at == '"') {
		s->at++;
		s->at += strcspn(s->at, "\"\n");
		if (*s->at)
			s->at++;
	} else if (is_word(*s->at)) {
		while (is_word(*s->at))
			s->at++;
	} else {
		s->at++;
	}
	s->len = (size_t)(s->at - s->tok);
	return true;
}

static bool is(const struct scan *s, const char *word)
{
	return s->len == strlen(word) && !memcmp(s->tok, word, s->len);
}

static bool peek(struct scan *s, char c)
{
	skip_blank(s);
	return *s->at == c;
}

static uint64_t number(const struct scan *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->len && isdigit((unsigned char)s->tok[i]) && n < UINT32_MAX; i++)
		n = n * 10 + (uint64_t)(s->tok[i] - '0');
	return n;
}

/* bytes of ".u32", ".b8", ".f64" …; 0 when the token is no fundamental type */
static uint32_t type_bytes(const struct scan *s)
{
	uint64_t bits = 0;

	if (s->len < 3 || s->tok[0] != '.' || !strchr("usbf", s->tok[1]))
		return 0;
	for (size_t i = 2; i < s->len; i++) {
		if (!isdigit((unsigned char)s->tok[i]))
			return 0;
		bits = bits * 10 + (uint64_t)(s->tok[i] - '0');
		if (bits > 128)
			return 0;
	}
	return (uint32_t)(bits / 8);
}

/* a declaration's "[.align A] .type NAME [N]"; leaves the cursor behind the name and its sizes */
struct declaration {
	const char *name;
	size_t name_len;
	uint64_t bytes;
	uint32_t align, elem;
};

static bool read_declaration(struct scan *s, struct declaration *ret)
{
	uint32_t elem = 0;
	uint64_t count = 1;

	*ret = (struct declaration){ 0 };
	while (next(s)) {
		if (is(s, ".align")) {
			if (!next(s))
				return false;
			ret->align = (uint32_t)number(s);
		} else if (type_bytes(s)) {
			elem = type_bytes(s);
		} else if (is(s, ".texref") || is(s, ".samplerref") || is(s, ".surfref")) {
			elem = 8;
		} else if (s->tok[0] != '.') {
			break; /* the name; .ptr, .space, .v4 and attributes change nothing */
		}
	}
	if (!elem || !is_word(s->tok[0]))
		return false;
	ret->name = s->tok;
	ret->name_len = s->len;
	while (peek(s, '[')) {
		next(s);
		if (!next(s))
			return false;
		if (s->tok[0] != ']') {
			if (__builtin_mul_overflow(count, number(s), &count))
				return false;
			next(s);
		}
	}
	ret->elem = elem;
	if (!ret->align)
		ret->align = elem;
	return !__builtin_mul_overflow(count, elem, &ret->bytes);
}

static void *grow(void *array, unsigned count, size_t size)
{
	if (count & (count - 1)) /* full only at powers of two */
		return array;
	return reallocarray(array, count ? (size_t)count * 2 : 1, size);
}

static int add_param(struct ptx_entry *entry, const struct declaration *decl)
{
	struct ptx_param *params;
	uint64_t offset;

	if (!decl->align || (decl->align & (decl->align - 1)) || decl->align > 128 ||
	    entry->param_count == PTX_PARAMS_MAX)
		return -EBADMSG;
	offset = (entry->param_bytes + (uint64_t)decl->align - 1) & ~((uint64_t)decl->align - 1);
	if (offset + decl->bytes > 32764) /* the most a kernel may take */
		return -EBADMSG;
	params = grow(entry->params, entry->param_count, sizeof(*params));
	if (!params)
		return -ENOMEM;
	entry->params = params;
	params[entry->param_count++] =
		(struct ptx_param){ (uint32_t)offset, (uint32_t)decl->bytes };
	entry->param_bytes = (uint32_t)(offset + decl->bytes);
	return 0;
}

static int read_params(struct scan *s, struct ptx_entry *entry)
{
	next(s); /* the opening parenthesis */
	while (next(s)) {
		struct declaration decl;
		int r;

		if (s->tok[0] == ')')
			return 0;
		if (s->tok[0] == ',')
			continue;
		if (!is(s, ".param") || !read_declaration(s, &decl))
			return -EBADMSG;
		r = add_param(entry, &decl);
		if (r < 0)
			return r;
	}
	return -EBADMSG;
}

/* the part of "ld.global.u32" before the first point */
static bool is_instruction(const struct scan *s)
{
	static const char names[] =
		" abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind "
		"bmsk "
		"bra brev brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp "
		"createpolicy "
		"cvt cvta discard div dp2a dp4a elect ex2 exit fence fma fns getctarank "
		"griddepcontrol "
		"isspacep istypep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier "
		"membar min mma mov movmatrix mul mul24 multimem nanosleep neg not or pmevent popc "
		"prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp "
		"shf "
		"shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix sub subc suld suq "
		"sured "
		"sust szext tanh tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 "
		"vabsdiff4 "
		"vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset "
		"vset2 "
		"vset4 vshl vshr vsub vsub2 vsub4 wgmma wmma xor ";
	char word[32];
	size_t len = 0;

	while (len < s->len && s->tok[len] != '.')
		len++;
	if (!len || len > sizeof(word) - 3)
		return false;
	word[0] = ' ';
	memcpy(word + 1, s->tok, len);
	word[len + 1] = ' ';
	word[len + 2] = '\0';
	return strstr(names, word) != NULL;
}

/* a statement inside a body, of which the first token was read; up to its semicolon */
static int read_statement(struct scan *s, struct ptx_entry *entry)
{
	if (s->tok[0] == '@') { /* @%p or @!%p */
		if (!next(s) || (s->tok[0] == '!' && !next(s)) || !next(s))
			return -EBADMSG;
	}
	if (is(s, ".shared")) {
		struct declaration decl;

		if (!read_declaration(s, &decl))
			return -EBADMSG;
		entry->shared_bytes += (uint32_t)decl.bytes;
	} else if (is(s, ".loc") || is(s, ".pragma")) {
		; /* where it came from, and hints: .loc ends with its line */
		if (is(s, ".loc")) {
			s->at += strcspn(s->at, "\n");
			return 0;
		}
	} else if (s->tok[0] != '.') {
		if (peek(s, ':'))
			return next(s) ? 0 : -EBADMSG; /* a label */
		if (!is_word(s->tok[0]) || !is_instruction(s))
			return -EBADMSG;
	}
	while (s->tok[0] != ';') { /* braces inside are vectors and call prototypes */
		if (!next(s))
			return -EBADMSG;
	}
	return 0;
}

/* from behind the parameters to the end of the body; a prototype ends with a semicolon */
static int read_body(struct scan *s, struct ptx_entry *entry)
{
	unsigned depth = 0;

	while (next(s)) {
		if (s->tok[0] == '{') {
			depth++;
		} else if (s->tok[0] == '}') {
			if (!depth || !--depth)
				return depth ? -EBADMSG : 0;
		} else if (s->tok[0] == ';' && !depth) {
			return 1;
		} else if (is(s, ".maxntid") && !depth) {
			entry->max_threads = 1;
			do {
				next(s);
				entry->max_threads *= (uint32_t)number(s);
			} while (peek(s, ',') && next(s));
		} else if (depth) {
			int r = read_statement(s, entry);

			if (r < 0)
				return r;
		}
	}
	return -EBADMSG;
}

static void entry_fini(struct ptx_entry *entry)
{
	free(entry->name);
	free(entry->params);
}

static int read_entry(struct scan *s, struct ptx_image *image)
{
	struct ptx_entry entry = { 0 };
	struct ptx_entry *entries;
	int r = 0;

	if (!next(s) || !is_word(s->tok[0]))
		return -EBADMSG;
	entry.name = strndup(s->tok, s->len);
	if (!entry.name)
		return -ENOMEM;
	if (peek(s, '('))
		r = read_params(s, &entry);
	if (r == 0)
		r = read_body(s, &entry);
	if (r != 0) {
		entry_fini(&entry);
		return r < 0 ? r : 0;
	}
	entries = grow(image->entries, image->entry_count, sizeof(*entries));
	if (!entries) {
		entry_fini(&entry);
		return -ENOMEM;
	}
	image->entries = entries;
	entries[image->entry_count++] = entry;
	return 0;
}

/* an integer, or the bits of a float; names of variables and functions count as 0 */
static uint64_t initial_value(const struct scan *s)
{
	const char *digits = s->tok;
	uint64_t value = 0;

	if (s->len > 2 && digits[0] == '0' && strchr("xXfFdD", digits[1])) {
		for (size_t i = 2; i < s->len && isxdigit((unsigned char)digits[i]); i++) {
			char c = (char)tolower((unsigned char)digits[i]);

			value = value * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		}
		return value;
	}
	for (size_t i = 0; i < s->len && isdigit((unsigned char)digits[i]); i++)
		value = value * 10 + (uint64_t)(digits[i] - '0');
	return value;
}

/* "= 42" or "= { 1, -2, 0x3 }", nested braces too; up to the semicolon, which stays */
static int read_initial(struct scan *s, const struct declaration *decl, unsigned char **ret)
{
	bool negative = false;
	uint64_t at = 0;

	if (decl->bytes > (uint64_t)1 << 30)
		return -EBADMSG;
	*ret = calloc(1, decl->bytes ? decl->bytes : 1);
	if (!*ret)
		return -ENOMEM;
	next(s); /* the equals sign */
	while (!peek(s, ';') && next(s)) {
		if (s->tok[0] == '-') {
			negative = true;
		} else if (s->tok[0] == '+') {
			next(s);                                  /* an offset from a name */
		} else if (is_word(s->tok[0]) && !peek(s, '(')) { /* else generic(…), a mask(…) */
			uint64_t value = initial_value(s);

			if (negative)
				value = -value;
			negative = false;
			if (at + decl->elem > decl->bytes)
				return -EBADMSG;
			memcpy(*ret + at, &value, decl->elem < 8 ? decl->elem : 8);
			at += decl->elem;
		}
	}
	return 0;
}

static int read_global(struct scan *s, struct ptx_image *image, bool constant)
{
	struct scan ahead = *s;
	struct ptx_global global = { .constant = constant };
	struct ptx_global *globals;
	struct declaration decl;
	int r = 0;

	/* .global .attribute(.managed) .align 4 .u32 name */
	if (next(&ahead) && is(&ahead, ".attribute")) {
		while (next(&ahead) && ahead.tok[0] != ')')
			global.managed |= is(&ahead, ".managed");
		*s = ahead;
	}
	if (!read_declaration(s, &decl))
		return -EBADMSG;
	global.bytes = decl.bytes;
	if (constant)
		image->const_bytes += decl.bytes;
	global.name = strndup(decl.name, decl.name_len);
	globals = grow(image->globals, image->global_count, sizeof(*globals));
	if (globals)
		image->globals = globals;
	if (peek(s, '='))
		r = read_initial(s, &decl, &global.initial);
	if (!globals || !global.name || r < 0) {
		free(global.name);
		free(global.initial);
		return r < 0 ? r : -ENOMEM;
	}
	globals[image->global_count++] = global;
	while (next(s) && s->tok[0] != ';')
		;
	return 0;
}

static int skip_function(struct scan *s)
{
	struct ptx_entry ignored = { 0 };
	int r = read_body(s, &ignored);

	return r < 0 ? r : 0;
}

/* debugging data: a name, and braces without statements inside */
static int skip_section(struct scan *s)
{
	while (next(s) && s->tok[0] != '{')
		;
	while (next(s) && s->tok[0] != '}')
		;
	return s->tok[0] == '}' ? 0 : -EBADMSG;
}

static int read_text(const char *text, struct ptx_image *image)
{
	struct scan s = { .at = text };
	bool external = false;
	int r = 0;

	while (r == 0 && next(&s)) {
		if (is(&s, ".version")) {
			unsigned major, minor = 0;

			if (!next(&s))
				return -EBADMSG;
			major = (unsigned)number(&s);
			for (size_t i = 0; i + 1 < s.len; i++) {
				if (s.tok[i] == '.')
					minor = (unsigned)(s.tok[i + 1] - '0');
			}
			image->ptx_version = major * 10 + minor;
			if (image->ptx_version > PTX_VERSION_MAX)
				return -EPROTONOSUPPORT;
		} else if (!image->ptx_version) {
			return -ENOEXEC; /* .version comes first */
		} else if (is(&s, ".target")) {
			if (!next(&s) || s.len < 4 || memcmp(s.tok, "sm_", 3))
				return -EBADMSG;
			s.tok += 3;
			s.len -= 3;
			image->target = (unsigned)number(&s);
			if (image->target < 10 || image->target > TARGET_MAX)
				return -EBADMSG;
		} else if (is(&s, ".extern")) {
			external = true;
			continue;
		} else if (is(&s, ".entry")) {
			r = read_entry(&s, image);
		} else if (is(&s, ".func")) {
			r = skip_function(&s);
		} else if (is(&s, ".global") || is(&s, ".const")) {
			if (external)
				while (next(&s) && s.tok[0] != ';')
					;
			else
				r = read_global(&s, image, is(&s, ".const"));
		} else if (is(&s, ".section")) {
			r = skip_section(&s);
		} else if (s.tok[0] == '{' || s.tok[0] == '}') {
			return -EBADMSG;
		} else if (s.tok[0] != '.') {
			continue; /* the operands of .address_size, .file, .section … */
		}
		external = false;
	}
	if (r == 0 && !image->ptx_version)
		r = -ENOEXEC;
	if (r == 0 && !image->target)
		r = -EBADMSG;
	return r;
}

int ptx_image_read(const void *code, struct ptx_image *ret)
{
	struct ptx_image image = { 0 };
	const unsigned char *bytes = code;
	uint32_t magic = 0;
	int r;

	for (unsigned i = 0; i < 4; i++) { /* text may be shorter than a magic */
		magic |= (uint32_t)bytes[i] << (8 * i);
		if (!bytes[i])
			break;
	}
	if (magic == MAGIC_ELF &&
	    (bytes[ELF_MACHINE_AT] | bytes[ELF_MACHINE_AT + 1] << 8) != ELF_MACHINE_GPU)
		return -ENOEXEC;
	if (magic == MAGIC_ELF || magic == MAGIC_FATBIN || magic == MAGIC_FATBINC ||
	    magic == MAGIC_ARCHIVE) {
		image.opaque = true;
		*ret = image;
		return 0;
	}
	if (!bytes[0] || (!isprint(bytes[0]) && !isspace(bytes[0])))
		return -ENOEXEC;
	r = read_text(code, &image);
	if (r < 0) {
		ptx_image_fini(&image);
		return r;
	}
	*ret = image;
	return 0;
}

void ptx_image_fini(struct ptx_image *image)
{
	for (unsigned i = 0; i < image->entry_count; i++)
		entry_fini(&image->entries[i]);
	for (unsigned i = 0; i < image->global_count; i++) {
		free(image->globals[i].name);
		free(image->globals[i].initial);
	}
	free(image->entries);
	free(image->globals);
	*image = (struct ptx_image){ 0 };
}
