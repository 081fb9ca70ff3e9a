/*
 * engine.h: the engine's operations as commands use them: on the store of the home at hand, or, with --server, each as one call of a
 * capability store.*. What a server answers becomes the structs that perdure.h has, so that both are printed by the same code.
 *
 * Between engine_open and the end of the command; what is borrowed lives until the next call.
 */
#ifndef PD_CMD_ENGINE_H
#define PD_CMD_ENGINE_H

#include "cli.h"
#include "names.h"

/* cli_open, unless there is a server: that opens the store when it is asked for something. */
PD_MUST_USE pd_code engine_open(cli_session *cli, cli_open_mode mode, pd_error *err);
/* The ref that the last write was made on. */
const char *engine_ref(const cli_session *cli);

/* ---- answers of a server ---- */

/* One call: write the input's members to `w`, then engine_ask. Zero-initialise; engine_answer_done. Texts that are taken from the answer
 * live as long as it does. */
typedef struct engine_answer {
  pd_buf input, body, texts;
  pd_json_writer w;
  pd_json json; /* the answer */
} engine_answer;

/* Open the input, with the member `store`. */
void engine_begin(const cli_session *cli, engine_answer *a, pd_error *err);
/* Call the capability. A store that is not there is told as cli_no_store does. */
PD_MUST_USE pd_code engine_ask(cli_session *cli, engine_answer *a, const char *capability, pd_error *err);
void engine_answer_done(engine_answer *a);
/* The members author, run, reason, and ref, of an input. */
void engine_put_note(engine_answer *a, const pd_note *note);
void engine_put_base64(engine_answer *a, const char *name, pd_bytes bytes);
/* Members of an answer; "", 0 and false where there are none. */
const char *engine_text(engine_answer *a, pd_json object, const char *name);
pd_bytes engine_bytes(engine_answer *a, pd_json object, const char *name);
pd_bytes engine_base64(engine_answer *a, pd_json object, const char *name);
uint64_t engine_number(pd_json object, const char *name);
bool engine_flag(pd_json object, const char *name);
pd_id engine_id(pd_json object, const char *name);
pd_commit engine_commit(pd_json object);
void engine_entry(pd_json object, pd_entry *out);
void engine_take_ack(engine_answer *a, pd_ack *out);

/* ---- state ---- */

PD_MUST_USE pd_code engine_put(cli_session *cli, pd_bytes key, pd_bytes value, uint64_t expect, const pd_note *note, pd_ack *out,
                               pd_error *err);
/* All of them in one commit, or none. `expect` goes with one key. */
PD_MUST_USE pd_code engine_delete(cli_session *cli, const char *const *keys, size_t count, uint64_t expect, const pd_note *note,
                                  pd_ack *out, pd_error *err);
/* Many changes in one commit, of a server: begin, one engine_change each (value NULL: delete), end. */
void engine_changes_begin(cli_session *cli, engine_answer *a, pd_error *err);
void engine_change(engine_answer *a, pd_bytes key, const pd_bytes *value, uint64_t expect);
PD_MUST_USE pd_code engine_changes_end(cli_session *cli, engine_answer *a, const pd_note *note, pd_ack *out, pd_error *err);
/* `version` 0: the newest. */
PD_MUST_USE pd_code engine_get(cli_session *cli, const char *at, pd_bytes key, uint64_t version, pd_buf *out_value, pd_entry *out_entry,
                               pd_error *err);
PD_MUST_USE pd_code engine_has(cli_session *cli, const char *at, pd_bytes key, bool *out, pd_error *err);
/* Visit keys in order, `most` at most (0: all); return false to stop. */
typedef bool (*engine_entry_visit)(void *ctx, const pd_entry *entry, pd_bytes value);
PD_MUST_USE pd_code engine_scan(cli_session *cli, const char *at, const pd_scan *scan, uint64_t most, engine_entry_visit visit, void *ctx,
                                pd_error *err);

/* ---- refs and marks ---- */

/* From the list `refs` of an answer. */
PD_MUST_USE pd_code engine_take_names(engine_answer *a, names_list *out, pd_error *err);
PD_MUST_USE pd_code engine_names(cli_session *cli, names_list *out, pd_error *err);
/* how: "undo", "redo", "reset", "fork", "switch", "delete"; of a server also "init". `name`, `to` and `count` for those that need them. */
typedef struct engine_move {
  const char *how, *name, *to;
  uint64_t count;
} engine_move;
PD_MUST_USE pd_code engine_move_ref(cli_session *cli, const engine_move *move, const pd_note *note, pd_ack *out, pd_error *err);
/* Make the store, if it is not there: then *out_made. */
PD_MUST_USE pd_code engine_make(cli_session *cli, bool *out_made, pd_error *err);
/* kind: "tag" or "pin". */
PD_MUST_USE pd_code engine_mark_list(cli_session *cli, const char *kind, pd_mark_visit visit, void *ctx, pd_error *err);
PD_MUST_USE pd_code engine_mark_set(cli_session *cli, const char *kind, const char *name, const char *at, bool force, const pd_note *note,
                                    pd_commit *out, pd_error *err);
PD_MUST_USE pd_code engine_mark_delete(cli_session *cli, const char *kind, const char *name, const pd_note *note, pd_error *err);

/* ---- history ---- */

/* Records with what is shown beside them, of one moment. Zero-initialise; engine_log_done. */
typedef struct engine_log {
  cli_session *cli;
  pd_log_query query;
  bool wants_names, or_ref, is_one, wants_values; /* or_ref: query.key may be a ref's name; is_one: only the commit at query.at */
  names_list names;
  pd_commit root, start; /* start: query.at */
  pd_gc_info gc;
  bool is_ref; /* or_ref: it was one */
  engine_answer answer;
  pd_json_walk values;
} engine_log;

PD_MUST_USE pd_code engine_log_begin(engine_log *log, pd_error *err);
PD_MUST_USE pd_code engine_log_visit(engine_log *log, pd_record_visit visit, void *ctx, pd_error *err);
/* is_one, wants_values: the value that the commit has put; to be asked for in the order of its changes. */
PD_MUST_USE pd_code engine_log_value(engine_log *log, pd_bytes key, pd_buf *out, pd_error *err);
void engine_log_done(engine_log *log);

PD_MUST_USE pd_code engine_history(cli_session *cli, const char *at, pd_bytes key, uint64_t limit,
                                   bool (*visit)(void *ctx, const pd_version_info *version), void *ctx, pd_error *err);
PD_MUST_USE pd_code engine_blame(cli_session *cli, const char *at, pd_bytes key, bool (*visit)(void *ctx, const pd_blame_line *line),
                                 void *ctx, pd_error *err);

/* ---- what a store knows besides its state ---- */

PD_MUST_USE pd_code engine_setting_get(cli_session *cli, const char *name, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code engine_setting_list(cli_session *cli, bool (*visit)(void *ctx, const char *name, pd_bytes value), void *ctx,
                                        pd_error *err);
PD_MUST_USE pd_code engine_setting_set(cli_session *cli, const char *name, pd_bytes value, const pd_note *note, pd_error *err);
PD_MUST_USE pd_code engine_setting_delete(cli_session *cli, const char *name, const pd_note *note, pd_error *err);

PD_MUST_USE pd_code engine_message_get(cli_session *cli, const char *id, pd_message_visit visit, void *ctx, pd_error *err);
PD_MUST_USE pd_code engine_message_list(cli_session *cli, const char *session, pd_message_visit visit, void *ctx, pd_error *err);
/* The message, its parent, and so on, the newest first. */
PD_MUST_USE pd_code engine_message_ancestors(cli_session *cli, const char *id, pd_message_visit visit, void *ctx, pd_error *err);
/* `visit` (may be NULL) gets the message as it is linked now. */
PD_MUST_USE pd_code engine_message_link(cli_session *cli, const pd_message *message, const char *at, const pd_note *note, pd_commit *out,
                                        pd_message_visit visit, void *ctx, pd_error *err);
PD_MUST_USE pd_code engine_message_unlink(cli_session *cli, const char *id, const pd_note *note, pd_error *err);

/* As pd_prove; with `descends` as pd_prove_descent, of which `at` is the later point. */
PD_MUST_USE pd_code engine_prove(cli_session *cli, const char *at, pd_bytes key, bool has_value, const char *descends, pd_buf *out,
                                 pd_error *err);

/* ---- care ---- */

PD_MUST_USE pd_code engine_gc(cli_session *cli, const pd_gc_policy *policy, pd_gc_report *out, pd_error *err);
PD_MUST_USE pd_code engine_gc_auto(cli_session *cli, bool *out_did, bool *out_is_auto, pd_gc_report *out, pd_error *err);
PD_MUST_USE pd_code engine_erase(cli_session *cli, pd_bytes key, const pd_erase_options *options, pd_erase_report *out, pd_error *err);
PD_MUST_USE pd_code engine_du(cli_session *cli, const char *at, pd_bytes prefix, unsigned depth,
                              bool (*visit)(void *ctx, const pd_du_row *row), void *ctx, pd_du *out, pd_error *err);
/* Opens the store by itself, as pd_repair. */
PD_MUST_USE pd_code engine_repair(cli_session *cli, const pd_repair_options *options, pd_repair_report *out, pd_error *err);

/* ---- merge ---- */

/* A result, and what a server answered it with. Zero-initialise; engine_merged_done. */
typedef struct engine_merged {
  pd_merge_result result;
  engine_answer answer;
  pd_merge_change *changes;
  pd_conflict *conflicts;
} engine_merged;

/* how: "merge", "cherry-pick", "revert". As pd_merge. */
PD_MUST_USE pd_code engine_merge(cli_session *cli, const char *how, const char *at, const pd_merge_options *options, const pd_note *note,
                                 engine_merged *out, pd_error *err);
void engine_merged_done(engine_merged *m);

#endif
