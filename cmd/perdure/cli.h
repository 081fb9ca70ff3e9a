/*
 * cli.h: what every command shares: the session (store, agent, output), how a store is opened, how values come in and go out,
 * and how failures are told.
 *
 * A command is one cli_command in one file (small ones share a file by noun) and one line in the table of main.c. Its `run` returns
 * PD_OK, or an error that main tells; a negative answer (no such key, points that differ) is `exit_code` 1 with PD_OK.
 * Data goes to cli->out, talk to standard error.
 */
#ifndef PD_CMD_CLI_H
#define PD_CMD_CLI_H

#include "args.h"
#include "base/json.h"
#include "out.h"

#include <perdure/perdure.h>

#define CLI_EXIT_OK 0
#define CLI_EXIT_NEGATIVE 1
#define CLI_EXIT_USAGE 2
#define CLI_EXIT_CONFLICT 3
#define CLI_EXIT_STORAGE 4
#define CLI_EXIT_LIMIT 5
#define CLI_EXIT_OPERATOR 6 /* the operator has to do something: approve, unlock, permit */

#define CLI_VALUE_SIZE_MAX ((size_t)64 * 1024 * 1024)
#define CLI_VALUE_SIZE_LIMIT ((size_t)UINT32_MAX - 1)   /* whatever a store can hold; for what was put already */
#define CLI_BUNDLE_CACHE_SIZE ((size_t)8 * 1024 * 1024) /* history goes by once: nothing is read again */
#define CLI_SHORT_ID 12

typedef struct cli_session {
  const char *uri, *agent;
  bool has_agent;                    /* it was named: a token of an agent's says it by itself */
  bool is_remote;                    /* uri is a server's */
  char far_ref[PD_REF_SIZE_MAX + 1]; /* is_remote: the ref of the last write (engine.h) */
  bool is_json, is_quiet;
  bool is_operator;      /* what the command does is the operator's, also without --operator */
  size_t value_size_max; /* of a put; 0: CLI_VALUE_SIZE_MAX */
  size_t cache_size_max; /* 0: the library's own choice */
  bool has_pager;        /* commands with long output set out.wants_pager to this */
  out_stream out;
  pd_store *store; /* NULL: not open */
  int exit_code;   /* of a command that succeeded; or, not 0 on a failure, instead of the code's own */
  bool told;       /* the failure was told already: only the exit code is left */
  char hint[320];  /* on a failure: what to do, or "" for the code's own hint */
} cli_session;

typedef struct cli_command {
  args_spec spec;
  const char *group;     /* "state", "history", "branches", "care": how `help` sorts them */
  const char *summary;   /* one line, no full stop */
  const char *usage;     /* after the command's name */
  const char *about;     /* what it does, wrapped by hand at 80 columns */
  const char *example;   /* lines that begin with "$ " */
  const char *no_server; /* why it does not work with --server; NULL: it does, or needs no home */
  pd_code (*run)(cli_session *cli, const args_parsed *args, pd_error *err);
} cli_command;

#define CLI_HIDDEN "hidden" /* the group of commands that are for machines: not listed */

/* ---- main.c ---- */

/* The table of commands, ended by NULL, and the options that all of them share. */
const cli_command *const *cli_commands(void);
const args_option *cli_global_options(void);
/* Does a store's name begin with a scheme: letters, digits, + . - and then a colon? */
bool cli_has_scheme(const char *uri);

/* ---- session.c ---- */

typedef enum cli_open_mode {
  CLI_READ,  /* changes nothing; the store must exist */
  CLI_WRITE, /* the store must exist */
  CLI_LEAVE, /* the same, and values may be left behind where no ref leads (pd_history_leave) */
  CLI_CREATE /* made if it is not there */
} cli_open_mode;

/* Open cli->store. A missing store is a storage failure (exit 4) with a hint, not a negative answer. */
PD_MUST_USE pd_code cli_open(cli_session *cli, cli_open_mode mode, pd_error *err);
/* The answer if there is no store. */
pd_code cli_no_store(cli_session *cli, pd_error *err);

/* --author, --run, --reason, of commands that write but to no ref of the user's choice. */
#define CLI_WHO_OPTIONS                                                                                                                    \
  {"reason", 0, "TEXT", "why, for the record"}, {"run", 0, "ID", "the run it belongs to, for the record"},                                 \
  {                                                                                                                                        \
    "author", 0, "NAME", "who, for the record (default: the agent)"                                                                        \
  }
/* --ref, --author, --run, --reason, as every writing command takes them. */
#define CLI_NOTE_OPTIONS                                                                                                                   \
  {"ref", 0, "NAME", "work on this ref instead of the current one"}, {"reason", 0, "TEXT", "why, for the record"},                         \
    {"run", 0, "ID", "the run it belongs to, for the record"},                                                                             \
  {                                                                                                                                        \
    "author", 0, "NAME", "who, for the record (default: the agent)"                                                                        \
  }
#define CLI_AT_OPTION                                                                                                                      \
  {                                                                                                                                        \
    "at", 0, "X", "the point in history to read (see: perdure help at)"                                                                    \
  }

pd_note cli_note(const args_parsed *args);

/* Talk to the person on standard error; silent with --json and --quiet. */
void cli_say(const cli_session *cli, const char *fmt, ...) PD_PRINTF(2, 3);

/* {"commit":…,"tree":…,"seq":…,"durability":…} into an open object. */
void cli_ack_json(pd_json_writer *w, const pd_ack *ack);
/* Print what a write answered: the commit id, or with --json the whole of it (key may be NULL). */
PD_MUST_USE pd_code cli_print_ack(cli_session *cli, const pd_ack *ack, const char *key, const char *ref, pd_error *err);

/* A writer on cli->out. Finish with cli_json_end: a newline, and the writer's error if any. */
pd_json_writer cli_json(cli_session *cli, pd_error *err);
PD_MUST_USE pd_code cli_json_end(cli_session *cli, pd_json_writer *w);

/* ---- fail.c ---- */

int cli_exit_of(pd_code code);
/* The member "error" (base/json_error.h) with a hint of the command in its details; `hint` may be NULL. */
void cli_error_json(pd_json_writer *w, const pd_error *err, const char *hint);
/* Tell a failure on standard error; returns the exit code. */
int cli_fail(const cli_session *cli, const pd_error *err);

/* ---- value.c ---- */

/* VALUE as typed: `-` is standard input, `@FILE` a file, else the text itself. Reads at most the limit and one byte. */
PD_MUST_USE pd_code cli_value_read(const char *text, pd_buf *out, pd_error *err);
/* Decision 078: text that begins like JSON ({, [ or ") has to be JSON; PD_INVALID says where it is not, and `otherwise`: how to store it as
 * text. Other text is text. */
PD_MUST_USE pd_code cli_json_check(pd_bytes text, const char *otherwise, pd_error *err);
#define CLI_AS_JSON_STRING "to store it as text, write it as a JSON string"
/* A file as a whole, `-` is standard input; at most CLI_VALUE_SIZE_MAX. `what` is for the error: "proof". */
PD_MUST_USE pd_code cli_file_read(const char *path, const char *what, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code cli_file_write(const char *path, pd_bytes bytes, pd_error *err);
/* "value" if the bytes are JSON, "text" if they are UTF-8, else "base64"; into an open object. */
void cli_value_json(pd_json_writer *w, pd_bytes value);
/* pd_json_put_entry, and seq. */
void cli_entry_json(pd_json_writer *w, const pd_entry *entry);
/* At most `most` bytes of a value on one line, for people. */
void cli_value_short(out_stream *o, pd_bytes value, size_t most);
const char *cli_short_id(const pd_id *id, char out[PD_ID_HEX_SIZE]);

/* ---- help.c ---- */

void cli_help_all(cli_session *cli, const cli_command *const *commands, const args_option *global);
void cli_help_command(cli_session *cli, const cli_command *command);
void cli_help_at(cli_session *cli);
/* The groups of commands in the order of `help`; false after the last. */
bool cli_group(size_t index, const char **out_group, const char **out_title);

#endif
