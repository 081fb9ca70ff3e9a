/* bundle_import.c: taking in a bundle, and bringing one from store to store. */
#include "base/array.h"
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/bundle.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIES_MAX 16 /* of an import that gc overtook; each finds more of its commits on its own lines */
#define TRANSFER_TRIES_MAX 4

static void importer_done(pd_importer *im)
{
  pd_bundle_reader_done(&im->reader);
  pd_bundle_head_done(&im->head);
  pd_buf_done(&im->meta);
  free(im->notes);
  free(im->more);
  free(im->gone);
  free(im->bases);
  free(im->fates);
  free(im->seqs);
}

/* A dry run says how many commits would be new, by their ids. */
static pd_code count_new(pd_importer *im, pd_error *err)
{
  pd_code code = PD_OK;
  pd_store_lock(im->s);
  for (size_t i = 0; !code && i < im->note_count; i++) {
    bool is_found = false;
    pd_commit commit;
    code = pd_import_find(im->s, &im->notes[i].id, &commit, &is_found, err);
    im->report.added += !is_found;
  }
  pd_store_unlock(im->s);
  for (size_t i = 0; i < im->head.ref_count; i++) im->report.refs_moved += im->fates[i] != PD_IMPORT_SAME;
  return code;
}

static void tell_refs(const pd_importer *im)
{
  const pd_import_options *o = im->options;
  for (size_t i = 0; o->visit_ref && i < im->head.ref_count; i++) {
    char name[2 * PD_REF_SIZE_MAX + 2];
    snprintf(name, sizeof name, "%s%s%s", o->as ? o->as : "", o->as ? "/" : "", im->head.refs[i].name);
    pd_import_ref ref = {name, im->head.refs[i].commit, im->fates[i]};
    o->visit_ref(o->ctx, &ref);
  }
}

static pd_code adopt_current(pd_importer *im, pd_error *err)
{
  pd_ref ref;
  if (im->options->as || !*im->head.current) return PD_OK;
  if (pd_ref_get(im->s, im->head.current, &ref, NULL)) return PD_OK; /* it did not come along */
  return ref.is_current ? PD_OK : pd_switch(im->s, im->head.current, NULL, err);
}

static pd_code run_import(pd_importer *im, const pd_source *source, pd_error *err)
{
  if (im->options->as) TRY(pd_ref_check(im->options->as, err));
  if (im->s->is_read_only && !im->options->is_dry_run)
    return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", im->s->agent);
  im->reader.value_size_max = im->options->value_size_max ? im->options->value_size_max : im->s->value_size_max;
  TRY(pd_bundle_reader_open(&im->reader, source, &im->head, err));
  strcpy(im->report.source, im->head.store);
  TRY(pd_import_check(im, err));
  TRY(pd_import_plan_refs(im, err));
  if (im->options->is_dry_run) {
    TRY(count_new(im, err));
  } else {
    TRY(pd_import_apply(im, err));
    TRY(pd_import_move_refs(im, err));
    if (im->options->adopts_current) TRY(adopt_current(im, err));
  }
  tell_refs(im);
  return PD_OK;
}

pd_code pd_import(pd_store *store, int fd, const pd_import_options *options, pd_import_report *out, pd_error *err)
{
  pd_source source;
  TRY(pd_bundle_file_source(&fd, &source, err));
  return pd_import_from(store, &source, options, out, err);
}

/* One go. Adds to `lines`. */
static pd_code try_import(pd_store *store, const pd_source *source, const pd_import_options *options, pd_import_lines *lines,
                          pd_import_report *out, pd_error *err)
{
  CLEANUP(importer_done) pd_importer im = {.s = store, .options = options, .lines = lines};
  uint64_t added_before = lines->added;
  pd_code code = run_import(&im, source, err);
  lines->added = added_before + im.report.added;
  if (code == PD_RETIRED) pd_import_lines_check(store, lines);
  if (code) return code;
  im.report.added = lines->added;
  if (out) *out = im.report;
  return PD_OK;
}

typedef struct ending {
  pd_store *s;
  const pd_import_lines *lines;
} ending;

static pd_code stage_end(void *ctx, pd_error *err)
{
  const ending *e = ctx;
  return pd_import_lines_end(e->s, e->lines, err);
}

/* What is not needed any more need not wait until it is taken for dead; if that fails, it does. */
static void end_lines(pd_store *s, const pd_import_lines *lines)
{
  ending e = {s, lines};
  if (lines->count) (void)!pd_write_many(s, stage_end, &e, NULL);
}

static void count_importing(pd_store *s, int more)
{
  pd_store_lock(s);
  s->importing += (unsigned)more;
  pd_store_unlock(s);
}

pd_code pd_import_from(pd_store *store, const pd_source *source, const pd_import_options *options, pd_import_report *out, pd_error *err)
{
  static const pd_import_options defaults;
  CLEANUP(pd_import_lines_done) pd_import_lines lines = {0};
  pd_error why = {.code = PD_OK};
  pd_code code = PD_RETIRED;
  count_importing(store, 1);
  for (int tries = 0; code == PD_RETIRED && tries < TRIES_MAX; tries++)
    code = try_import(store, source, options ? options : &defaults, &lines, out, &why);
  if (code) end_lines(store, &lines);
  count_importing(store, -1);
  if (code && err) *err = why;
  return code;
}

/* ---- from store to store ---- */

/* What the receiver has: the heads of all its refs. */
typedef struct known {
  pd_id *ids;
  size_t count, capacity;
  pd_code code; /* of the visitor */
} known;

static void known_done(known *k)
{
  free(k->ids);
}

static void take_head(void *ctx, const pd_ref *ref)
{
  known *k = ctx;
  if (!k->code) k->code = pd_array_grow(&k->ids, k->count, &k->capacity, sizeof *k->ids, "a bundle", NULL);
  if (!k->code) k->ids[k->count++] = ref->commit.id;
}

static pd_code list_heads(pd_store *to, known *out, pd_error *err)
{
  TRY(pd_ref_list(to, take_head, out, err));
  return out->code ? pd_error_memory(err, "a bundle") : PD_OK;
}

/* `is_whole`: bring all of it, whatever is there. */
static pd_code transfer_once(pd_store *from, pd_store *to, const pd_transfer_options *o, bool is_whole, pd_import_report *out,
                             pd_error *err)
{
  CLEANUP(known_done) known k = {0};
  CLEANUP(pd_fd_done) int fd = -1;
  if (!is_whole) TRY(list_heads(to, &k, err));
  TRY(pd_file_temporary(&fd, err));
  pd_export_options ex = {.refs = o->refs, .ref_count = o->ref_count, .is_all = o->is_all, .known = k.ids, .known_count = k.count};
  ex.progress = o->export_progress;
  ex.ctx = o->export_ctx;
  TRY(pd_export(from, fd, &ex, NULL, err));
  return pd_import(to, fd, &o->import, out, err);
}

/* A gc on the other side may retire what the bundle builds on, while it is on its way: then another one is made. It may have retired it
 * before, too: a head that is there does not mean that its ancestors are. Then all of it is brought, and what is there is passed over. */
pd_code pd_transfer(pd_store *from, pd_store *to, const pd_transfer_options *options, pd_import_report *out, pd_error *err)
{
  static const pd_transfer_options defaults;
  pd_error why = {.code = PD_OK};
  pd_code code = PD_RETIRED;
  if (from == to) return pd_error_set(err, PD_INVALID, "a store cannot be brought to itself");
  for (int tries = 0; (code == PD_RETIRED || code == PD_NOT_FOUND) && tries < TRANSFER_TRIES_MAX; tries++)
    code = transfer_once(from, to, options ? options : &defaults, code == PD_NOT_FOUND, out, &why);
  if (code && err) *err = why;
  return code;
}

/* ---- remotes ---- */

static pd_code remote_key(const char *name, char out[PD_NAME_SIZE_MAX + 16], pd_error *err)
{
  TRY(pd_agent_check(name, err)); /* the same letters */
  snprintf(out, PD_NAME_SIZE_MAX + 16, "remote.%s", name);
  return PD_OK;
}

typedef struct remote {
  pd_json uri, agent;
} remote;

static const pd_bind remote_members[] = {{"uri", PD_BIND_STRING, PD_BIND_AT(remote, uri)},
                                         {"agent", PD_BIND_STRING, PD_BIND_AT(remote, agent)}};

pd_code pd_remote_get(pd_store *store, const char *name, pd_buf *out_uri, pd_buf *out_agent, pd_error *err)
{
  char key[PD_NAME_SIZE_MAX + 16];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  remote found;
  TRY(remote_key(name, key, err));
  pd_code code = pd_meta_get(store, "setting", key, &text, NULL, err);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_NOT_FOUND, "no remote '%s' is known here", name);
  TRY(code);
  TRY(pd_bind_parse(pd_buf_bytes(&text), remote_members, COUNT_OF(remote_members), PD_BIND_LOOSE, &found, err));
  pd_buf_clear(out_uri);
  pd_buf_clear(out_agent);
  TRY(pd_json_append_text(found.uri, out_uri, err));
  return pd_json_append_text(found.agent, out_agent, err);
}

pd_code pd_remote_set(pd_store *store, const char *name, const char *uri, const char *agent, pd_error *err)
{
  char key[PD_NAME_SIZE_MAX + 16];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(remote_key(name, key, err));
  TRY(pd_agent_check(agent, err));
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "uri", uri);
  pd_json_put_text(&w, "agent", agent);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_meta_put(store, "setting", key, pd_buf_bytes(&text), PD_ANY_VERSION, NULL, NULL, err);
}
