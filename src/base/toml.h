/*
 * toml.h: a small, strict reader of TOML, for files that people write.
 *
 *     quota = "50 MB"            # a comment          entry: table 0 (""),       key "quota",     name "quota"
 *     [session]                                       table 1: "session"
 *     idle = "1h"                                     entry: table 1,            key "idle",      name "session.idle"
 *     limits.keys = 1_000                             entry: table 1,            key "limits.keys", name "session.limits.keys"
 *     [[rule]]                                        table 2: "rule", index 0
 *     agents = ["a", 'b']                             entry: table 2,            key "agents",    name "rule.agents"
 *     [[rule]]                                        table 3: "rule", index 1
 *
 * It reads tables, arrays of tables, dotted keys, basic and literal strings on one line, integers, booleans, and arrays of these (which
 * may go over several lines). What TOML has beyond that (dates, floats, inline tables, strings over several lines, tables in
 * arrays of tables) is refused by name. A key, or a table, may appear once; a key may not be a value and a table too.
 *
 * T1  Everything that is refused is refused with FILE:LINE and what is wrong there.
 * T2  Entries and tables are in the order of the file.
 * T3  Texts are strict UTF-8 without NUL, and end with one.
 */
#ifndef PD_BASE_TOML_H
#define PD_BASE_TOML_H

#include <perdure/perdure.h>

#define PD_TOML_SIZE_MAX ((size_t)1024 * 1024) /* of a file */
#define PD_TOML_NAME_MAX 200                   /* of a table's or a key's name, bytes */

typedef enum pd_toml_kind { PD_TOML_STRING = 1, PD_TOML_INTEGER, PD_TOML_BOOL, PD_TOML_ARRAY } pd_toml_kind;

typedef struct pd_toml_value pd_toml_value;
struct pd_toml_value {
  pd_toml_kind kind;
  const char *text; /* of a string */
  int64_t integer;
  bool is_true;
  const pd_toml_value *items; /* of an array; its items are no arrays */
  size_t item_count;
  size_t line;
};

typedef struct pd_toml_table {
  const char *name; /* "session"; "" for what stands before the first table */
  bool is_list;     /* [[name]] */
  size_t index;     /* of [[name]] among its like, from 0 */
  size_t line;
} pd_toml_table;

typedef struct pd_toml_entry {
  size_t table;     /* in tables */
  const char *key;  /* in its table */
  const char *name; /* the table's name, a dot, the key; or the key alone */
  pd_toml_value value;
  size_t line;
} pd_toml_entry;

typedef struct pd_toml {
  pd_toml_table *tables; /* the first one is "" */
  size_t table_count, table_capacity;
  pd_toml_entry *entries;
  size_t entry_count, entry_capacity;
  void *memory; /* of the texts */
} pd_toml;

/* Read `text`; `file` is its name in messages. `*out` is to be finished with pd_toml_done, also after a failure, and borrows nothing.
 * PD_INVALID: see T1; PD_LIMIT if it is too large. */
PD_MUST_USE pd_code pd_toml_parse(pd_bytes text, const char *file, pd_toml *out, pd_error *err);
/* The same with a file. PD_NOT_FOUND if there is none, PD_STORAGE if it cannot be read. */
PD_MUST_USE pd_code pd_toml_read(const char *path, pd_toml *out, pd_error *err);
void pd_toml_done(pd_toml *toml);
/* "a string", "an integer"…, for messages. Static storage. */
const char *pd_toml_kind_name(pd_toml_kind kind);

#endif
