/* capgen.h: what the parts of capgen share: the capabilities that were read, and how their members are taken. Nothing returns an error: what
 * is wrong is told with the file's name, and the program ends. */
#ifndef PD_TOOLS_CAPGEN_H
#define PD_TOOLS_CAPGEN_H

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

#define CAPGEN_FILES_MAX 512

typedef struct capability {
  const char *path;
  pd_buf bytes;
  pd_json json;
  char name[96];
} capability;

extern capability capgen_caps[CAPGEN_FILES_MAX]; /* by name */
extern size_t capgen_count;
extern pd_json capgen_common; /* the errors of all */

__attribute__((noreturn, format(printf, 2, 3))) void capgen_refuse(const char *path, const char *fmt, ...);

/* ---- reading; texts live until the program ends ---- */

/* A decoded string; "" for what is absent. */
const char *capgen_text(const char *path, pd_json value);
const char *capgen_member(const capability *c, pd_json object, const char *key);
const char *capgen_needed(const capability *c, const char *key);
/* The value as JSON on one line. */
const char *capgen_line(pd_json value);
bool capgen_is_listed(pd_json list, const char *text);
/* The next of a list of errors: an object, also where the list has the name of a shared one. */
bool capgen_next_error(const char *path, pd_json_walk *walk, pd_json *out);
/* A cell of a table in Markdown: no line breaks, no bars. */
void capgen_cell(FILE *f, const char *text);

typedef struct capgen_word_pair {
  const char *json, *c;
} capgen_word_pair;

/* The C name of a word; that of the first for what is absent. */
const char *capgen_word(const capability *c, const char *what, pd_json value, const capgen_word_pair *words, size_t count);
/* Who may call it: every file says so. */
const char *capgen_permission(const capability *c);

/* ---- writing ---- */

void capgen_table(const char *path);
void capgen_header(const char *path);
void capgen_pages(const char *folder);

#endif
