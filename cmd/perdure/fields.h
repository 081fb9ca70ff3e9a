/* fields.h: from words and --fields to a capability's input, and from its answer to something that people read. */
#ifndef PD_CMD_FIELDS_H
#define PD_CMD_FIELDS_H

#include "cli.h"

/* The input of `capability` as JSON, appended to `out`: the words after the verb take the names in `names` (ended by NULL; may be
 * NULL: no words), then the --fields. A field's type decides how its text is read: a string as it is, any JSON as JSON, or else as a
 * string; `@FILE` and `-` where any JSON may stand; an array as JSON, or as its strings, which
 * take all words that are left. PD_INVALID names what is unknown or does not fit. */
PD_MUST_USE pd_code fields_write(const char *capability, const char *const *names, const args_parsed *args, pd_buf *out, pd_error *err);

/* Has the capability an input of this name? With NULL, or a capability that there is not: no. */
bool fields_has(const char *capability, const char *name, size_t name_size);

#define FIELDS_PATH_SIZE 4096 /* PATH_MAX: realpath writes as much */
/* A path as an absolute one: relative to where the person is, not to where the server is. */
PD_MUST_USE pd_code fields_full_path(const char *path, char out[FIELDS_PATH_SIZE], pd_error *err);

/* tier.c: the capability that a shorthand calls, or NULL. */
const char *tier_capability(const char *tier, const char *verb);
/* Run the verb that is the first word of a tier's command. */
PD_MUST_USE pd_code tier_run(cli_session *cli, const args_parsed *args, pd_error *err);

/* answer.c. Print an answer for people: a value alone; a list as a table, aligned on a terminal and tab-separated elsewhere; else a line a
 * member, and what is nested below it, indented. With --json the answer itself.
 * `columns` (names with blanks between; may be NULL): those of a list in a pipe, in this order, whatever members its rows have. */
PD_MUST_USE pd_code answer_print(cli_session *cli, pd_bytes answer, const char *columns, pd_error *err);

/* Only one member of it, on a line, or as a document if it is an object; as JSON if `is_raw`. */
PD_MUST_USE pd_code answer_print_only(cli_session *cli, pd_bytes answer, const char *member, bool is_raw, pd_error *err);

/* `NAME: VALUE` of one member, on standard error. */
PD_MUST_USE pd_code answer_say(cli_session *cli, pd_bytes answer, const char *member, pd_error *err);

/* A call failed: tell it as the answer does. Sets cli->hint to the first recovery; with --json prints the answer itself. */
pd_code answer_failed(cli_session *cli, const pd_buf *answer, pd_code code);

#endif
