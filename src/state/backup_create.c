/*
 * backup_create.c: state.backup.create: every store's bundle into one backup, of one instant.
 *
 * The instant: the heads of all stores are read twice; if nothing moved between, they were all true at once. If somebody writes all the
 * time, the instant is a moment just past: the heads as they were at that time, by the times in the records. A write that was
 * acknowledged before the backup was asked for is in it, either way, also if the clock was set back since.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "state/authorise.h"
#include "state/backup.h"
#include "state/foresee.h"
#include "state/moment.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/vault.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define STILL_TRIES_MAX 8
#define CLOCK_TRIES_MAX 20
#define SEQUENCE_KEY "backup/sequence"

/* ---- stores ---- */

static pd_code open_own(pd_home *home, pd_joint *joint, const char *name, bool create, pd_backup_handle *out, pd_error *err)
{
  pd_options options = {.must_exist = !create,
                        .cache_size_max = PD_BACKUP_CACHE_BYTES,
                        .value_size_max = UINT32_MAX - 1,
                        .ref = NULL,
                        .author = "perdure",
                        .now_ms = home->now_ms,
                        .now_ctx = home->now_ctx,
                        .joint = joint};
  TRY(pd_store_open(home->uri, name, &options, &out->store, err));
  out->is_own = true;
  return PD_OK;
}

pd_code pd_backup_handle_open(pd_home *home, const char *name, bool create, pd_backup_handle *out, pd_error *err)
{
  pd_grant grant;
  TRY(pd_authorise_work(home, "backup", &grant, err));
  *out = (pd_backup_handle){.home = home};
  if (strcmp(home->uri, "memory:") == 0) {
    TRY(pd_home_hold(&grant, name, create, &out->held, err));
    out->store = out->held->store;
    return PD_OK;
  }
  pd_held *held = pd_home_hold_opened(&grant, name);
  pd_code code = held ? pd_store_flush(held->store, err) : PD_OK; /* what was acknowledged as buffered belongs in the backup, too */
  pd_home_let(home, held);
  TRY(code);
  return open_own(home, NULL, name, create, out, err);
}

pd_code pd_backup_handle_join(pd_home *home, pd_joint *joint, const char *name, pd_backup_handle *out, pd_error *err)
{
  *out = (pd_backup_handle){.home = home};
  return open_own(home, joint, name, false, out, err);
}

pd_code pd_backup_handle_close(pd_backup_handle *handle, pd_error *err)
{
  pd_store *store = handle->is_own ? handle->store : NULL;
  if (handle->held) pd_home_let(handle->home, handle->held);
  *handle = (pd_backup_handle){0};
  return pd_store_close(store, err);
}

void pd_backup_handle_done(pd_backup_handle *handle)
{
  (void)!pd_backup_handle_close(handle, NULL);
}

bool pd_backup_is_outside(const pd_home *home, const char *store)
{
  char place[PD_PLACE_SIZE];
  return pd_store_placed(home->uri, store, place, NULL) != PD_NOT_FOUND;
}

pd_code pd_backup_check_here(const pd_home *home, const char *agent, pd_error *err)
{
  if (!pd_backup_is_outside(home, agent)) return PD_OK; /* the place itself is the operator's to know: an agent may ask for this */
  return pd_error_named(err, PD_INVALID, "InvalidInput",
                        "field 'agent': the store of '%s' is placed outside of this home (`perdure agents` tells where)", agent);
}

typedef struct chooser {
  pd_home *home;
  pd_backup_manifest *manifest;
  pd_json_writer outside; /* an array of the agents whose stores are elsewhere is open */
} chooser;

static pd_code choose_agent(void *ctx, const char *agent, pd_error *err)
{
  chooser *c = ctx;
  pd_backup_store *store;
  if (!pd_backup_is_outside(c->home, agent)) return pd_backup_manifest_add(c->manifest, agent, &store, err);
  pd_json_text(&c->outside, pd_text(agent));
  return c->outside.code;
}

/* `outside` gets a JSON array: who is left out. */
static pd_code choose_stores(pd_home *home, const char *agent, pd_backup_manifest *out, pd_buf *outside, pd_error *err)
{
  pd_backup_store *store;
  pd_store *shared;
  chooser c = {home, out, {.out = outside, .err = err}};
  pd_json_open(&c.outside, '[');
  if (*agent) {
    bool is_here = false;
    TRY(pd_backup_check_here(home, agent, err));
    pd_json_close(&c.outside, ']');
    TRY(pd_home_has_agent(home, agent, &is_here, err));
    if (!is_here) return pd_error_named(err, PD_INVALID, "InvalidInput", "field 'agent': there is no agent '%s' here", agent);
    return pd_backup_manifest_add(out, agent, &store, err);
  }
  TRY(pd_home_each_agent(home, choose_agent, &c, err));
  pd_json_close(&c.outside, ']');
  TRY(pd_home_store(home, PD_STORE_SHARED, true, &shared, err));
  return pd_backup_manifest_add(out, PD_STORE_SHARED, &store, err);
}

/* ---- the instant ---- */

/* Each costs a file descriptor; most are left to others. */
static size_t pauses_max(void)
{
  struct rlimit limit;
  bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_known ? (size_t)limit.rlim_cur / 4 : SIZE_MAX;
}

/* Else gc could retire a head of the instant before its store's turn comes. */
static pd_code pause_gc(pd_home *home, pd_backup_manifest *manifest, pd_error *err)
{
  for (size_t i = 0; i < manifest->count && i < pauses_max(); i++) {
    CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
    TRY(pd_backup_handle_open(home, manifest->stores[i].name, false, &handle, err));
    TRY(pd_gc_pause_begin(handle.store, &manifest->stores[i].pause, err));
  }
  return PD_OK;
}

/* The head of `ref` at `at`: "" or "@MS". *out_moved is set if it is another than before. The queue's may be missing: zero. */
static pd_code read_head(pd_store *store, const char *ref, const char *at, pd_id *head, bool *out_moved, pd_error *err)
{
  char point[48];
  pd_commit commit = {0};
  snprintf(point, sizeof point, "%s%s", ref, at);
  pd_code code = pd_resolve(store, point, &commit, err);
  if (code && (code != PD_NOT_FOUND || strcmp(ref, PD_QUEUE_REF) != 0)) return code;
  if (!pd_id_equal(&commit.id, head)) *out_moved = true;
  *head = commit.id;
  return PD_OK;
}

/* Read all heads at `at`; *out_moved says whether one is another than before. */
static pd_code read_heads(pd_home *home, pd_backup_manifest *manifest, const char *at, bool *out_moved, pd_error *err)
{
  *out_moved = false;
  for (size_t i = 0; i < manifest->count; i++) {
    CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
    TRY(pd_backup_handle_open(home, manifest->stores[i].name, false, &handle, err));
    TRY(read_head(handle.store, PD_STATE_REF, at, &manifest->stores[i].head, out_moved, err));
    TRY(read_head(handle.store, PD_QUEUE_REF, at, &manifest->stores[i].queue, out_moved, err));
  }
  return PD_OK;
}

/* The home's clock has to pass the millisecond of `from`, so that nothing can be written in it any more. */
static void wait_for_the_next_ms(pd_home *home, int64_t from)
{
  const struct timespec nap = {.tv_nsec = 500000};
  for (unsigned i = 0; i < CLOCK_TRIES_MAX && pd_home_now(home) <= from; i++) nanosleep(&nap, NULL);
}

/* Now; or, for a clock that was set back, when the newest head was written: whoever wrote it was answered already. */
static pd_code not_before_the_heads(pd_home *home, const pd_backup_manifest *manifest, int64_t *out_ms, pd_error *err)
{
  static const char *const refs[] = {PD_STATE_REF, PD_QUEUE_REF};
  *out_ms = pd_home_now(home);
  for (size_t i = 0; i < manifest->count; i++) {
    CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
    TRY(pd_backup_handle_open(home, manifest->stores[i].name, false, &handle, err));
    for (size_t k = 0; k < COUNT_OF(refs); k++) {
      pd_ref ref = {.updated_ms = 0};
      pd_code code = pd_ref_get(handle.store, refs[k], &ref, err);
      if (code && code != PD_NOT_FOUND) return code;
      if (ref.updated_ms > *out_ms) *out_ms = ref.updated_ms;
    }
  }
  return PD_OK;
}

static pd_code choose_instant(pd_home *home, pd_backup_manifest *manifest, pd_error *err)
{
  char at[24];
  bool has_moved = true;
  manifest->instant_ms = pd_home_now(home);
  TRY(read_heads(home, manifest, "", &has_moved, err));
  has_moved = true;
  for (unsigned i = 0; has_moved && i < STILL_TRIES_MAX; i++) {
    manifest->instant_ms = pd_home_now(home);
    TRY(read_heads(home, manifest, "", &has_moved, err));
  }
  if (!has_moved) return PD_OK;
  TRY(not_before_the_heads(home, manifest, &manifest->instant_ms, err));
  wait_for_the_next_ms(home, manifest->instant_ms);
  snprintf(at, sizeof at, "@%lld", (long long)manifest->instant_ms);
  return read_heads(home, manifest, at, &has_moved, err);
}

/* ---- writing ---- */

static pd_code write_store(pd_home *home, pd_backup_out *out, pd_backup_store *store, pd_error *err)
{
  CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
  pd_export_options options = {.is_all = true};
  pd_export_report report;
  pd_sink sink = {pd_backup_out_add, out};
  store->at = out->stream_size;
  TRY(pd_backup_handle_open(home, store->name, false, &handle, err));
  TRY(pd_export_to(handle.store, &sink, &options, &report, err));
  store->size = out->stream_size - store->at;
  store->commits = report.commits;
  store->changes = report.changes;
  store->value_bytes = report.value_bytes;
  pd_gc_pause_end(store->pause);
  store->pause = NULL;
  return pd_backup_handle_close(&handle, err);
}

static pd_code stage_sequence(void *ctx, pd_edit *edit, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  uint64_t *out = ctx, last = 0;
  pd_entry entry = {0};
  pd_json json;
  char text[24];
  pd_code code = pd_edit_get(edit, pd_text(SEQUENCE_KEY), &value, &entry, err);
  if (code && code != PD_NOT_FOUND) return code;
  if (!code && pd_json_parse(pd_buf_bytes(&value), &json, NULL) == PD_OK && !pd_json_u64(json, &last)) last = 0;
  snprintf(text, sizeof text, "%llu", (unsigned long long)(*out = last + 1));
  return pd_edit_put(edit, pd_text(SEQUENCE_KEY), pd_text(text), code ? 0 : entry.version, err);
}

/* The home's own count of backups: a later one has a greater number, whatever the clock says. */
static pd_code next_sequence(pd_home *home, uint64_t *out, pd_error *err)
{
  pd_store *system;
  pd_note note = {.ref = "main", .reason = "state.backup.create"};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &system, err));
  return pd_update(system, &note, stage_sequence, out, NULL, err);
}

static pd_code begin(pd_frame *frame, const char *folder, pd_backup_out *out, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret key = {0};
  TRY(pd_secret_new(&key, PD_KEY_BYTES, err));
  TRY(pd_vault_use_current(frame->home, key.data, &out->head.kdf, &out->head.wrapped, err));
  TRY(pd_brink(frame, err));
  TRY(next_sequence(frame->home, &out->head.sequence, err));
  out->head.created_ms = frame->now_ms;
  return pd_backup_out_begin(out, folder, key.data, err);
}

pd_code pd_cap_state_backup_create(pd_frame *frame, pd_error *err)
{
  char folder[PD_BACKUP_PATH_SIZE], scope[PD_NAME_SIZE_MAX + 8];
  CLEANUP(pd_backup_manifest_done) pd_backup_manifest manifest = {0};
  CLEANUP(pd_backup_out_done) pd_backup_out out = {.fd = -1};
  pd_home *home = frame->home;
  pd_in_string(frame, "agent", out.head.agent, sizeof out.head.agent);
  TRY(pd_backup_folder(home, folder, err));
  CLEANUP(pd_buf_done) pd_buf outside = {0};
  TRY(choose_stores(home, out.head.agent, &manifest, &outside, err));
  TRY(begin(frame, folder, &out, err));
  TRY(pause_gc(home, &manifest, err));
  TRY(choose_instant(home, &manifest, err));
  for (size_t i = 0; i < manifest.count; i++) {
    TRY(pd_frame_progress(frame, i, manifest.count, err));
    TRY(write_store(home, &out, &manifest.stores[i], err));
  }
  TRY(pd_frame_progress(frame, manifest.count, manifest.count, err));
  TRY(pd_backup_out_end(&out, &manifest, err));
  (void)!pd_backup_prune(folder, home->config.backup_keep, out.head.id, NULL); /* the backup is made; the next one tries again */
  pd_backup_scope(&out.head, scope);
  pd_json_put_text(&frame->out, "backup_id", out.head.id);
  pd_out_time(frame, "created_at", out.head.created_ms);
  pd_json_put_number(&frame->out, "file_size_bytes", out.file_size);
  pd_json_put_text(&frame->out, "scope", scope);
  if (outside.size > 2) pd_json_put_value(&frame->out, "outside", (pd_json){pd_buf_bytes(&outside), PD_JSON_ARRAY});
  return PD_OK;
}
