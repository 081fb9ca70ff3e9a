/* toml_parse.h: what the files of the TOML reader share. */
#ifndef PD_BASE_TOML_PARSE_H
#define PD_BASE_TOML_PARSE_H

#include "base/toml.h"

#define PD_TOML_TABLES_MAX 4096

typedef struct toml_parser {
  const uint8_t *at, *end;
  size_t line;
  const char *file;
  pd_toml *doc;
  pd_error *err;
} toml_parser;

/* Memory of the document; NULL if there is none. */
void *pd_toml_take(toml_parser *p, size_t size);
char *pd_toml_copy(toml_parser *p, const void *text, size_t size);
pd_code pd_toml_bad(const toml_parser *p, size_t line, const char *fmt, ...) PD_PRINTF(3, 4);
pd_code pd_toml_no_memory(const toml_parser *p);

/* Blanks and a comment, up to the line's end. */
PD_MUST_USE pd_code pd_toml_skip_comment(toml_parser *p);
/* Blanks, comments and line ends. */
PD_MUST_USE pd_code pd_toml_skip_lines(toml_parser *p);
/* toml_value.c; `name` is the key, for messages. */
PD_MUST_USE pd_code pd_toml_read_value(toml_parser *p, const char *name, pd_toml_value *out);
/* toml_names.c: nothing is there twice, and nothing is both a value and a table. */
PD_MUST_USE pd_code pd_toml_check_names(toml_parser *p);

#endif
