// SPDX-License-Identifier: Apache-2.0
/* a whole commented file of the defaults */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/value.h"

#define WIDTH 78

struct out {
	void (*put)(const char *text, void *context);
	void *context;
};

static void put(const struct out *o, const char *a, const char *b, const char *c)
{
	o->put(a, o->context);
	o->put(b, o->context);
	o->put(c, o->context);
}

/* "  # " and as many words as fit */
static void put_wrapped(const struct out *o, const char *indent, const char *text)
{
	while (*text) {
		size_t room = WIDTH - strlen(indent) - 2, n = strlen(text);
		char line[WIDTH + 1];

		if (n > room) {
			n = room;
			while (n > 0 && text[n] != ' ')
				n--;
		}
		(void)str_print(line, sizeof(line), "%.*s", (int)n, text);
		put(o, indent, "# ", line);
		o->put("\n", o->context);
		text += n;
		text += strspn(text, " ");
	}
}

static void put_option(const struct out *o, const struct config_option *option)
{
	char line[160];

	put_wrapped(o, "  ", option->help);
	put(o, "  # ", value_form(option->type), "");
	if (option->flags & CONFIG_RESTART)
		o->put("; from the next start on", o->context);
	if (option->flags & CONFIG_SYSTEM_ONLY)
		o->put("; the machine's service only", o->context);
	/* what is empty has no form to be written in: shown as a comment */
	(void)str_print(line, sizeof(line), "\n  %s%s:%s%s\n",
			*option->text || option->type == CONFIG_TYPE_PEOPLE ? "" : "#",
			option->name,
			*option->text || option->type == CONFIG_TYPE_PEOPLE ? " " : "",
			option->type == CONFIG_TYPE_PEOPLE ? "[]" : option->text);
	o->put(line, o->context);
}

void config_print_default(enum config_mode mode, void (*to)(const char *text, void *context),
			  void *context)
{
	struct out o = { to, context };

	o.put("# allot.yaml: what allotd does when nobody says otherwise. Every line here is\n"
	      "# the default. 'allot config check' finds mistakes with their place; see\n"
	      "# allot.yaml(5).\n",
	      context);
	for (const struct config_section *s = config_sections; s->name; s++) {
		o.put("\n", context);
		put_wrapped(&o, "", s->help);
		put(&o, s->name, ":", "\n");
		for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++)
			if (strcmp(config_options[i].section, s->name) == 0 &&
			    (mode != CONFIG_MODE_USER ||
			     !(config_options[i].flags & CONFIG_SYSTEM_ONLY)))
				put_option(&o, &config_options[i]);
		if (strcmp(s->name, "gpu_defaults") != 0)
			continue;
		o.put("\n# The same for single GPUs, by 'id' (index, whole UUID, PCI address) or\n"
		      "# 'model' (a pattern). Where entries mean the same GPU, the later one "
		      "holds.\n"
		      "#gpus:\n"
		      "#  - id: 0\n"
		      "#    reserve: 2GiB\n"
		      "#  - model: \"NVIDIA RTX*\"\n"
		      "#    reserve: 5%\n",
		      context);
	}
}
