/*
 * batch.c: `batch`: JSON lines in, one JSON line out for each, in order.
 *
 * B1  The answer to an operation is written only when the operation is durable, and before the next line is begun.
 * B2  A bad line changes nothing, is answered with an error, and the stream goes on.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "batch_op.h"
#include "commands.h"
#include "engine.h"
#include "far.h"
#include "lines.h"

#include <stdio.h>
#include <unistd.h>

#define LINE_SIZE_MAX (CLI_VALUE_SIZE_MAX * 2 + (size_t)64 * 1024)

typedef struct batch {
  cli_session *cli;
  batch_op op, inner;
  pd_buf value;     /* of gets; answers of calls */
  pd_home *home;    /* opened by the first call */
  bool is_operator; /* calls are the operator's */
  bool has_told;    /* `value` is the answer of a call that failed */
  pd_note note;     /* defaults from the command line */
  pd_json_writer w; /* the answer being written */
  uint64_t line;
} batch;

static void batch_done(batch *b)
{
  batch_op_done(&b->op);
  batch_op_done(&b->inner);
  pd_buf_done(&b->value);
  pd_home_close(b->home, NULL); /* what calls wrote was durable when they were answered */
}

static pd_note note_of(const batch *b)
{
  pd_note note = b->op.note;
  if (!note.ref) note.ref = b->note.ref;
  if (!note.author) note.author = b->note.author;
  if (!note.run) note.run = b->note.run;
  if (!note.reason) note.reason = b->note.reason;
  return note;
}

static void begin_answer(batch *b, bool is_ok)
{
  pd_json_open(&b->w, '{');
  pd_json_put_number(&b->w, "line", b->line);
  if (b->op.id.kind != PD_JSON_NONE) {
    pd_json_key(&b->w, "id");
    pd_json_value(&b->w, b->op.id);
  }
  pd_json_put_bool(&b->w, "ok", is_ok);
}

static pd_code do_put(batch *b, pd_error *err)
{
  pd_note note = note_of(b);
  pd_bytes key = pd_buf_bytes(&b->op.key);
  pd_ack ack;
  TRY(engine_put(b->cli, key, b->op.raw_value, b->op.expect, &note, &ack, err));
  begin_answer(b, true);
  pd_json_put_number(&b->w, "version", ack.version);
  cli_ack_json(&b->w, &ack);
  return PD_OK;
}

/* A key that is not there is an answer, not an error; a version that is not there is one. */
static pd_code do_get(batch *b, pd_error *err)
{
  pd_bytes key = pd_buf_bytes(&b->op.key);
  pd_entry entry;
  bool is_found = true;
  if (b->op.version) {
    TRY(engine_get(b->cli, b->op.at, key, b->op.version, &b->value, &entry, err));
  } else {
    TRY(engine_has(b->cli, b->op.at, key, &is_found, err));
    pd_code code = is_found ? engine_get(b->cli, b->op.at, key, 0, &b->value, &entry, err) : PD_OK;
    is_found = is_found && code != PD_NOT_FOUND; /* deleted by another process between the two calls */
    if (is_found) TRY(code);
  }
  begin_answer(b, true);
  pd_json_put_bool(&b->w, "found", is_found);
  if (!is_found) return PD_OK;
  cli_entry_json(&b->w, &entry);
  cli_value_json(&b->w, pd_buf_bytes(&b->value));
  return PD_OK;
}

static pd_code do_has(batch *b, pd_error *err)
{
  bool has;
  TRY(engine_has(b->cli, b->op.at, pd_buf_bytes(&b->op.key), &has, err));
  begin_answer(b, true);
  pd_json_put_bool(&b->w, "has", has);
  return PD_OK;
}

static pd_code delete_one(batch *b, pd_bytes key, const pd_note *note, pd_ack *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!b->cli->is_remote) {
    TRY(pd_history_leave(b->cli->store, err));
    return pd_delete(b->cli->store, key, b->op.expect, note, out, err);
  }
  engine_changes_begin(b->cli, &a, err);
  engine_change(&a, key, NULL, b->op.expect);
  return engine_changes_end(b->cli, &a, note, out, err);
}

/* Deleting what is not there answers deleted:false, unless a version was named or the ref is what is missing. */
static pd_code do_delete(batch *b, pd_error *err)
{
  pd_note note = note_of(b);
  pd_ack ack;
  pd_bytes key = pd_buf_bytes(&b->op.key);
  bool has = true, is_any = b->op.expect == PD_ANY_VERSION;
  if (is_any) TRY(engine_has(b->cli, note.ref, key, &has, err));
  pd_code code = has ? delete_one(b, key, &note, &ack, err) : PD_OK;
  if (is_any && code == PD_NOT_FOUND) has = false; /* another process was faster */
  if (has) TRY(code);
  begin_answer(b, true);
  pd_json_put_bool(&b->w, "deleted", has);
  if (has) cli_ack_json(&b->w, &ack);
  return PD_OK;
}

/* Into the edit, or into what a server is asked. */
static pd_code stage(batch *b, pd_edit *edit, engine_answer *a, pd_json json, pd_error *err)
{
  TRY(batch_op_read(&b->inner, json, true, err));
  pd_bytes key = pd_buf_bytes(&b->inner.key);
  if (a) {
    engine_change(a, key, b->inner.kind == BATCH_PUT ? &b->inner.raw_value : NULL, b->inner.expect);
    return PD_OK;
  }
  if (b->inner.kind == BATCH_PUT) return pd_edit_put(edit, key, b->inner.raw_value, b->inner.expect, err);
  TRY(pd_history_leave(b->cli->store, err));
  return pd_edit_delete(edit, key, b->inner.expect, err);
}

static pd_code stage_all(batch *b, pd_edit *edit, engine_answer *a, uint64_t *out_count, pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(b->op.ops);
  pd_json json;
  pd_error inner;
  for (*out_count = 0; pd_json_walk_next(&walk, NULL, &json);) {
    ++*out_count;
    pd_code code = stage(b, edit, a, json, &inner);
    if (code == PD_OK) continue;
    pd_error_set(err, code, "op %llu of the commit: %s", (unsigned long long)*out_count, inner.message);
    err->expected = inner.expected;
    err->actual = inner.actual;
    return code;
  }
  return PD_OK;
}

static pd_code commit_here(batch *b, const pd_note *note, uint64_t *out_count, pd_ack *out, pd_error *err)
{
  pd_edit *edit = NULL;
  TRY(pd_edit_begin(b->cli->store, note, &edit, err));
  pd_code code = stage_all(b, edit, NULL, out_count, err);
  if (code == PD_OK) code = pd_edit_commit(edit, out, err);
  if (code != PD_OK) pd_edit_abort(edit);
  return code;
}

static pd_code commit_there(batch *b, const pd_note *note, uint64_t *out_count, pd_ack *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  engine_changes_begin(b->cli, &a, err);
  TRY(stage_all(b, NULL, &a, out_count, err));
  return engine_changes_end(b->cli, &a, note, out, err);
}

static pd_code do_commit(batch *b, pd_error *err)
{
  pd_note note = note_of(b);
  pd_ack ack;
  uint64_t count;
  TRY(b->cli->is_remote ? commit_there(b, &note, &count, &ack, err) : commit_here(b, &note, &count, &ack, err));
  begin_answer(b, true);
  pd_json_put_number(&b->w, "ops", count);
  cli_ack_json(&b->w, &ack);
  return PD_OK;
}

static pd_code do_call(batch *b, pd_error *err)
{
  bool is_far = b->cli->is_remote;
  if (!b->home && !is_far) TRY(pd_home_open(b->cli->uri, NULL, &b->home, err));
  pd_ctx ctx = {.home = b->home, .agent = b->cli->agent, .session = b->op.session, .is_operator = b->is_operator};
  pd_code code = is_far ? far_call(b->cli, b->op.session, b->is_operator, b->op.capability, b->op.input.raw, &b->value, err)
                        : pd_call(&ctx, b->op.capability, b->op.input.raw, &b->value, err);
  b->has_told = code != PD_OK;
  TRY(code);
  pd_json output;
  TRY(pd_json_parse(pd_buf_bytes(&b->value), &output, err));
  begin_answer(b, true);
  pd_json_key(&b->w, "output");
  pd_json_value(&b->w, output);
  return PD_OK;
}

static pd_code do_line(batch *b, pd_bytes line, pd_error *err)
{
  static pd_code (*const run[BATCH_KIND_COUNT])(batch *, pd_error *) = {
    [BATCH_PUT] = do_put,       [BATCH_GET] = do_get,       [BATCH_HAS] = do_has,
    [BATCH_DELETE] = do_delete, [BATCH_COMMIT] = do_commit, [BATCH_CALL] = do_call};
  pd_json json;
  TRY(pd_json_parse(line, &json, err));
  TRY(batch_op_read(&b->op, json, false, err));
  return run[b->op.kind](b, err);
}

/* The error; of a call as the capability answered it. */
static void write_error(batch *b, const pd_error *fault)
{
  pd_json answered;
  if (b->has_told && pd_json_parse(pd_buf_bytes(&b->value), &answered, NULL) == PD_OK) {
    pd_json_key(&b->w, "error");
    pd_json_value(&b->w, pd_json_member(answered, "error"));
  } else {
    cli_error_json(&b->w, fault, NULL);
  }
}

/* Answer one line; the exit code is that of the first error. */
static pd_code answer(batch *b, lines_kind kind, pd_bytes line, pd_error *err)
{
  out_stream *o = &b->cli->out;
  pd_error fault;
  b->op.id = (pd_json){{NULL, 0}, PD_JSON_NONE};
  b->has_told = false;
  b->w = cli_json(b->cli, err);
  pd_code code = kind == LINES_LINE ? do_line(b, line, &fault)
                                    : pd_error_set(&fault, PD_LIMIT, "the line is over the limit of %zu bytes", LINE_SIZE_MAX);
  if (code != PD_OK) {
    begin_answer(b, false);
    write_error(b, &fault);
    if (!b->cli->exit_code) b->cli->exit_code = cli_exit_of(code);
  }
  pd_json_close(&b->w, '}');
  TRY(cli_json_end(b->cli, &b->w));
  out_flush(o); /* B1 */
  return PD_OK;
}

static bool is_blank(pd_bytes line)
{
  const char *p = line.data;
  size_t i = 0;
  while (i < line.size && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r')) i++;
  return i == line.size;
}

static pd_code run_batch(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(lines_done) lines_reader input = {.fd = STDIN_FILENO, .line_size_max = LINE_SIZE_MAX};
  CLEANUP(batch_done) batch b = {.cli = cli, .note = cli_note(args), .is_operator = args_get(args, "operator") != NULL};
  TRY(engine_open(cli, CLI_CREATE, err));
  while (!out_is_closed(&cli->out)) {
    lines_kind kind;
    pd_bytes line;
    TRY(lines_next(&input, &kind, &line, err));
    if (kind == LINES_END) break;
    b.line++;
    if (kind == LINES_LINE && is_blank(line)) continue;
    TRY(answer(&b, kind, line, err));
  }
  return PD_OK;
}

static const args_option batch_options[] = {
  CLI_NOTE_OPTIONS, {"operator", 0, NULL, "calls are the operator's: they need no approval"}, {0}};

const cli_command cmd_batch = {
  .spec = {"batch", batch_options, 0, 0, false},
  .group = "state",
  .summary = "Run operations from standard input: JSON lines in, JSON lines out",
  .usage = "",
  .about = "Reads one operation a line and answers each in order with one line, written only when the operation is\n"
           "durable. A bad line is answered with an error and its number, and the stream goes on; blank lines are\n"
           "skipped. The exit code is 0, or that of the first error.\n"
           "\n"
           "  {\"op\":\"put\",\"key\":K,\"value\":ANY}      or \"text\":T or \"base64\":B instead of value; \"expect\":N\n"
           "  {\"op\":\"get\",\"key\":K}                  \"at\":X, \"version\":N\n"
           "  {\"op\":\"has\",\"key\":K}                  \"at\":X\n"
           "  {\"op\":\"delete\",\"key\":K}               \"expect\":N\n"
           "  {\"op\":\"commit\",\"ops\":[PUT|DELETE…]}   all of them in one commit, or none\n"
           "  {\"op\":\"call\",\"capability\":NAME,\"input\":{…}}   \"session\":ID, begun by a call in the same batch\n"
           "\n"
           "Writing operations also take \"ref\", \"reason\", \"run\" and \"author\"; every one takes an \"id\", which is echoed.",
  .example = "$ echo '{\"op\":\"put\",\"key\":\"n\",\"value\":1}' | perdure batch\n"
             "{\"line\":1,\"ok\":true,\"version\":1,\"commit\":\"…\",\"tree\":\"…\",\"seq\":1,\"durability\":\"synced\"}",
  .run = run_batch,
};
