/*
 * args.h: the command line as data: options are tables, parsing is pure (no output, no exit), so it is tested alone.
 *
 * Options may stand anywhere, before or after the command and its words: --name value, --name=value, -x value, -xvalue, -ab.
 * `--` ends them. `-` alone is a word (standard input), and so is a minus with a digit after it (-5 is a number).
 */
#ifndef PD_CMD_ARGS_H
#define PD_CMD_ARGS_H

#include <perdure/perdure.h>

#define ARGS_OPTION_MAX 24
#define ARGS_GIVEN_MAX 256
#define ARGS_FIELD_MAX 16
/* The flag that is a field too: with a value, after the first word of a command that takes fields. */
#define ARGS_FLAG_OR_FIELD "version"

typedef struct args_option {
  const char *name;
  char letter;       /* 0: none */
  const char *param; /* NULL: a flag */
  const char *help;
} args_option;

typedef struct args_parsed args_parsed;

/* What a command takes. */
typedef struct args_spec {
  const char *name;
  const args_option *options; /* ends with a NULL name */
  size_t word_min, word_max;
  bool takes_fields; /* options that are in no table are fields: --key plan, --flag (true); --version too, with a value */
  /* Is this a field of what the words so far name (a capability, a verb)? Then an option of that name is the field, also if there is an
   * option of all commands that is called so. NULL: no. */
  bool (*has_field)(const args_parsed *args, const char *name, size_t name_size);
} args_spec;

/* A field as it was given; dashes of its name stand for underscores. */
typedef struct args_field {
  const char *name;
  size_t name_size;
  const char *value; /* NULL: none was given */
} args_field;

/* An option with a value, as it was given. */
typedef struct args_given {
  const args_option *option;
  const char *value;
} args_given;

struct args_parsed {
  const args_spec *spec; /* NULL: no command was given */
  const args_option *global;
  const char *global_values[ARGS_OPTION_MAX]; /* NULL: not given; "" for flags */
  const char *values[ARGS_OPTION_MAX];
  args_given given[ARGS_GIVEN_MAX]; /* in order, for options that may be repeated; the arrays above have the last value */
  size_t given_count;
  args_field fields[ARGS_FIELD_MAX];
  size_t field_count;
  const char **words; /* after the command */
  size_t word_count;
  char hint[160]; /* on an error: a suggestion, or "" */
};

/* Parse argv[1…]; `out->words` is the caller's array of at least argc pointers. `find` gives the spec of a command or NULL; `near`
 * the known name that is most like an unknown one, or NULL. On PD_INVALID, what was understood until then is in `out`. */
PD_MUST_USE pd_code args_parse(int argc, char **argv, const args_option *global, const args_spec *(*find)(const char *name),
                               const char *(*near)(const char *name), args_parsed *out, pd_error *err);
/* Is the number of words what the command takes? */
PD_MUST_USE pd_code args_check_words(const args_parsed *args, pd_error *err);

/* The value of an option of the command or of all; NULL if it was not given. */
const char *args_get(const args_parsed *args, const char *name);
/* The same, but never an option of the command. */
const char *args_get_global(const args_parsed *args, const char *name);
/* Each value of an option that may be repeated, in order: *index begins with 0. NULL at the end. */
const char *args_next(const args_parsed *args, const char *name, size_t *index);
/* A decimal number that fits, from `least` on; `out` is untouched if the option was not given. */
PD_MUST_USE pd_code args_number(const args_parsed *args, const char *name, uint64_t least, uint64_t *out, pd_error *err);
/* A number of bytes, or of K, M or G of them: 512, 64K, 300M, 4G. */
PD_MUST_USE pd_code args_parse_size(const char *what, const char *text, uint64_t *out, pd_error *err);
/* A time in seconds: 90, 90s, 15min, 12h, 30d. */
PD_MUST_USE pd_code args_parse_seconds(const char *what, const char *text, uint64_t *out, pd_error *err);
PD_MUST_USE pd_code args_parse_number(const char *what, const char *text, uint64_t least, uint64_t *out, pd_error *err);

#endif
