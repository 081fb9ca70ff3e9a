/* transfer.c: see transfer.h. */
#include "transfer.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_report.h"
#include "base/uri.h"
#include "engine.h"
#include "far.h"
#include "remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define KNOWN_MAX 10000
#define PATH_SIZE_MAX 1024
#define TRIES_MAX 4 /* as pd_transfer */

/* ---- one request ---- */

static pd_code path_of(const cli_session *cli, const char *verb, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_printf(out, err, "/v1/bundles/"));
  TRY(pd_uri_escape(pd_text(cli->agent), "", out, err));
  return pd_buf_printf(out, err, "/%s", verb);
}

/* The answer's text, if it has one, goes into `out`. */
static pd_code ask(cli_session *cli, const far_files *files, pd_buf *path, pd_bytes body, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_byte(path, 0, err));
  pd_code code = far_bundle(cli, (const char *)path->data, body, files, out, err);
  return code == PD_NOT_FOUND && far_is_without_store(out) ? cli_no_store(cli, err) : code;
}

/* ---- export ---- */

static void put_texts(pd_json_writer *w, const char *name, const char *const *texts, size_t count)
{
  if (!count) return;
  pd_json_key(w, name);
  pd_json_open(w, '[');
  for (size_t i = 0; i < count; i++) pd_json_text(w, pd_text(texts[i]));
  pd_json_close(w, ']');
}

static pd_code put_options(const pd_export_options *o, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  put_texts(&w, "refs", o->refs, o->ref_count);
  put_texts(&w, "since", o->since, o->since_count);
  if (o->is_all) pd_json_put_bool(&w, "all", true);
  if (o->known_count) {
    pd_json_key(&w, "known");
    pd_json_open(&w, '[');
    for (size_t i = 0; i < o->known_count; i++) pd_json_text(&w, pd_text(pd_id_hex(&o->known[i], hex)));
    pd_json_close(&w, ']');
  }
  pd_json_close(&w, '}');
  return w.code;
}

/* To somewhere that can be read again from its beginning, or to a pipe. */
pd_code transfer_export(cli_session *from, int fd, const pd_export_options *options, pd_export_report *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf body = {0};
  CLEANUP(pd_buf_done) pd_buf path = {.size_max = PATH_SIZE_MAX};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  char report[PD_REMOTE_REPORT_SIZE] = "";
  far_files files = {.take_fd = &fd, .report = report, .progress = options->progress, .progress_ctx = options->ctx};
  if (!from->is_remote) return pd_export(from->store, fd, options, out, err);
  TRY(put_options(options, &body, err));
  TRY(path_of(from, "export", &path, err));
  TRY(ask(from, &files, &path, pd_buf_bytes(&body), &answer, err));
  if (!out) return PD_OK;
  *out = (pd_export_report){0};
  return pd_bind_parse(pd_text(report), pd_export_members, pd_export_member_count, PD_BIND_LOOSE, out, err);
}

/* ---- import ---- */

static pd_code add_query(pd_buf *path, const char *name, const char *value, pd_error *err)
{
  if (!value) return PD_OK;
  bool has_more = memchr(path->data, '?', path->size) != NULL;
  TRY(pd_buf_printf(path, err, "%c%s=", has_more ? '&' : '?', name));
  return pd_uri_escape(pd_text(value), "", path, err);
}

static pd_code visit_refs(pd_json answer, const pd_import_options *o, pd_error *err)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "refs")); o->visit_ref && pd_json_walk_next(&walk, NULL, &item);) {
    pd_import_moved moved = {0};
    TRY(pd_bind_read(item, pd_import_ref_members, pd_import_ref_member_count, PD_BIND_LOOSE, &moved, err));
    o->visit_ref(o->ctx, &(pd_import_ref){moved.name, moved.commit, (pd_import_fate)(moved.fate + 1)});
  }
  return PD_OK;
}

static pd_code take_answer(const pd_buf *answer, const pd_import_options *o, pd_import_report *out, pd_error *err)
{
  pd_json json;
  pd_import_report report = {0};
  TRY(pd_json_parse(pd_buf_bytes(answer), &json, err));
  TRY(pd_bind_read(json, pd_import_members, pd_import_member_count, PD_BIND_LOOSE, &report, err));
  TRY(visit_refs(json, o, err));
  if (out) *out = report;
  return PD_OK;
}

static pd_code file_size(int fd, uint64_t *out, pd_error *err)
{
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return pd_error_set(err, PD_INVALID, "a bundle is read from a file");
  *out = (uint64_t)st.st_size;
  return PD_OK;
}

pd_code transfer_import(cli_session *to, int fd, const pd_import_options *o, pd_import_report *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf path = {.size_max = PATH_SIZE_MAX};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  far_files files = {.send_fd = &fd, .progress = o->progress, .progress_ctx = o->ctx};
  if (!to->is_remote) return pd_import(to->store, fd, o, out, err);
  TRY(file_size(fd, &files.send_size, err));
  TRY(path_of(to, "import", &path, err));
  TRY(add_query(&path, "as", o->as, err));
  TRY(add_query(&path, "adopt", o->adopts_current ? "true" : NULL, err));
  TRY(add_query(&path, "dry_run", o->is_dry_run ? "true" : NULL, err));
  TRY(ask(to, &files, &path, (pd_bytes){0}, &answer, err));
  return take_answer(&answer, o, out, err);
}

/* ---- from side to side ---- */

/* Heads of refs there: what the other side need not send. With very many refs the first of them do; what they miss is sent again. */
static pd_code list_known(cli_session *to, pd_id **out, size_t *out_count, pd_error *err)
{
  CLEANUP(names_done) names_list names = {0};
  TRY(engine_names(to, &names, err));
  size_t count = names_count(&names) < KNOWN_MAX ? names_count(&names) : KNOWN_MAX;
  *out = calloc(count + 1, sizeof **out);
  if (!*out) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < count; i++) (*out)[i] = names_at(&names, i)->commit.id;
  *out_count = count;
  return PD_OK;
}

/* `is_whole`: bring all of it, whatever is there. */
static pd_code bring_once(cli_session *from, cli_session *to, const pd_transfer_options *o, bool is_whole, pd_import_report *out,
                          pd_error *err)
{
  CLEANUP(pd_free_at) pd_id *known = NULL;
  CLEANUP(pd_fd_done) int fd = -1;
  pd_export_options ex = {.refs = o->refs, .ref_count = o->ref_count, .is_all = o->is_all};
  ex.progress = o->export_progress;
  ex.ctx = o->export_ctx;
  if (!is_whole) TRY(list_known(to, &known, &ex.known_count, err));
  ex.known = known;
  TRY(pd_file_temporary(&fd, err));
  TRY(transfer_export(from, fd, &ex, NULL, err));
  return transfer_import(to, fd, &o->import, out, err);
}

static bool is_itself(const cli_session *from, const cli_session *to)
{
  return from->is_remote && to->is_remote && pd_remote_is_same(from->uri, to->uri) && strcmp(from->agent, to->agent) == 0;
}

/* As pd_transfer, which says why there are several tries. */
pd_code transfer_bring(cli_session *from, cli_session *to, const pd_transfer_options *options, pd_import_report *out, pd_error *err)
{
  pd_error why = {.code = PD_OK};
  pd_code code = PD_RETIRED;
  if (!from->is_remote && !to->is_remote) return pd_transfer(from->store, to->store, options, out, err);
  if (is_itself(from, to)) return pd_error_set(err, PD_INVALID, "a store cannot be brought to itself");
  for (int tries = 0; (code == PD_RETIRED || code == PD_NOT_FOUND) && tries < TRIES_MAX; tries++)
    code = bring_once(from, to, options, code == PD_NOT_FOUND, out, &why);
  if (code && err) *err = why;
  return code;
}

/* ---- where push and pull lead ---- */

static void remote_setting(const char *name, char out[PD_NAME_SIZE_MAX + 16])
{
  snprintf(out, PD_NAME_SIZE_MAX + 16, "remote.%.*s", PD_NAME_SIZE_MAX, name);
}

static pd_code take_member(pd_json json, const char *name, pd_buf *out, pd_error *err)
{
  pd_buf_clear(out);
  TRY(pd_json_decode(pd_json_member(json, name), out, err));
  return pd_buf_byte(out, 0, err);
}

pd_code transfer_remote_get(cli_session *cli, const char *name, pd_buf *out_uri, pd_buf *out_agent, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char setting[PD_NAME_SIZE_MAX + 16];
  pd_json json;
  if (!cli->is_remote) return pd_remote_get(cli->store, name, out_uri, out_agent, err);
  remote_setting(name, setting);
  pd_code code = engine_setting_get(cli, setting, &value, err);
  if (code == PD_NOT_FOUND && cli->exit_code != CLI_EXIT_STORAGE)
    return pd_error_set(err, PD_NOT_FOUND, "no remote '%s' is known here", name);
  TRY(code);
  TRY(pd_json_parse(pd_buf_bytes(&value), &json, err));
  TRY(take_member(json, "uri", out_uri, err));
  return take_member(json, "agent", out_agent, err);
}

pd_code transfer_remote_set(cli_session *cli, const char *name, const char *uri, const char *agent, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char setting[PD_NAME_SIZE_MAX + 16];
  pd_note note = {0};
  if (!cli->is_remote) return pd_remote_set(cli->store, name, uri, agent, err);
  remote_setting(name, setting);
  pd_json_writer w = {.out = &value, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "uri", uri);
  pd_json_put_text(&w, "agent", agent);
  pd_json_close(&w, '}');
  TRY(w.code);
  return engine_setting_set(cli, setting, pd_buf_bytes(&value), &note, err);
}

pd_code transfer_forward(cli_session *cli, const char *ref, const char *at, bool *out_moved, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_forward(cli->store, ref, at, NULL, out_moved, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "how", "forward");
  pd_json_put_text(&a.w, "name", ref);
  pd_json_put_text(&a.w, "to", at);
  TRY(engine_ask(cli, &a, "store.move", err));
  *out_moved = engine_flag(a.json, "moved");
  return PD_OK;
}

/* ---- threads ---- */

pd_code transfer_thread_export(cli_session *from, const char *id, int fd, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf path = {.size_max = PATH_SIZE_MAX};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  far_files files = {.take_fd = &fd};
  TRY(path_of(from, "thread-export", &path, err));
  TRY(add_query(&path, "thread", id, err));
  return ask(from, &files, &path, (pd_bytes){0}, &answer, err);
}

pd_code transfer_thread_import(cli_session *to, int fd, const pd_thread_import_options *o, pd_thread_replay_report *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf path = {.size_max = PATH_SIZE_MAX};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  far_files files = {.send_fd = &fd, .progress = o->progress, .progress_ctx = o->ctx};
  TRY(file_size(fd, &files.send_size, err));
  TRY(path_of(to, "thread-import", &path, err));
  TRY(add_query(&path, "as", o->id, err));
  TRY(add_query(&path, "dry_run", o->is_dry_run ? "true" : NULL, err));
  TRY(ask(to, &files, &path, (pd_bytes){0}, &answer, err));
  *out = (pd_thread_replay_report){0};
  return pd_bind_parse(pd_buf_bytes(&answer), pd_thread_replay_members, pd_thread_replay_member_count, PD_BIND_LOOSE, out, err);
}
