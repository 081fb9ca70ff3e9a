/* store_care.c: store.gc, erase, du, repair: care for any store, where it lies (store_call.h). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_report.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#include <stdio.h>

#define REFS_SIZE 4097
#define DETAILS_MAX 1000

static bool go_on(void *ctx, uint64_t done, uint64_t total)
{
  return pd_frame_progress(ctx, done, total, NULL) == PD_OK;
}

/* What was given up says so by its name; `why` is what else went wrong. */
static pd_code ended(pd_frame *frame, pd_code code, const pd_error *why, pd_error *err)
{
  if (!code) return PD_OK;
  TRY(pd_frame_progress(frame, 0, 0, err));
  if (err) *err = *why;
  return code;
}

/* ---- gc ---- */

static pd_code run_auto(pd_frame *frame, pd_store *store, bool *out_did, pd_gc_report *out, pd_error *err)
{
  pd_gc_info info;
  TRY(pd_gc_auto(store, out_did, out, err));
  TRY(pd_gc_status(store, &info, err));
  pd_json_put_bool(&frame->out, "is_auto", info.is_auto);
  return PD_OK;
}

pd_code pd_cap_store_gc(pd_frame *frame, pd_error *err)
{
  char refs[REFS_SIZE], author[PD_NOTE_SIZE_MAX + 1];
  pd_gc_policy policy = {.keep_last = (uint64_t)pd_in_int(frame, "keep_last", 0),
                         .keep_days = (uint64_t)pd_in_int(frame, "keep_days", 0),
                         .keep_versions = (uint64_t)pd_in_int(frame, "keep_versions", 0),
                         .is_dry = pd_in_bool(frame, "dry_run", false),
                         .progress = go_on,
                         .ctx = frame};
  pd_gc_report report = {0};
  pd_error why = {0};
  pd_store *store;
  bool did = true;
  TRY(pd_store_open_for(frame, policy.is_dry ? PD_STORE_READ : PD_STORE_WRITE, &store, err));
  if (pd_in_string(frame, "keep_refs", refs, sizeof refs)) policy.keep_refs = refs;
  (void)!pd_in_string(frame, "store", author, sizeof author); /* as whoever opens the store by its name */
  (void)!pd_in_string(frame, "author", author, sizeof author);
  policy.author = author;
  pd_code code = pd_in_bool(frame, "auto", false) ? run_auto(frame, store, &did, &report, &why) : pd_gc(store, &policy, &report, &why);
  TRY(ended(frame, code, &why, err));
  pd_json_put_bool(&frame->out, "ran", did);
  pd_bind_write(&frame->out, pd_gc_members, pd_gc_member_count, &report);
  return frame->out.code;
}

/* ---- erase ---- */

pd_code pd_cap_store_erase(pd_frame *frame, pd_error *err)
{
  pd_store_note n;
  pd_erase_options options = {.everywhere = pd_in_bool(frame, "everywhere", false),
                              .version = (uint64_t)pd_in_int(frame, "version", 0),
                              .spares_marks = pd_in_bool(frame, "spare_marks", false),
                              .is_lazy = pd_in_bool(frame, "lazy", false),
                              .is_dry = pd_in_bool(frame, "dry_run", false),
                              .note = &n.note,
                              .progress = go_on,
                              .ctx = frame};
  pd_erase_report report = {0};
  pd_error why = {0};
  pd_store *store;
  TRY(pd_store_open_for(frame, options.is_dry ? PD_STORE_READ : PD_STORE_WRITE, &store, err));
  TRY(pd_store_take_note(frame, store, &n, err));
  pd_code code = pd_erase(store, pd_in_text(frame, "key"), &options, &report, &why);
  TRY(ended(frame, code, &why, err));
  pd_bind_write(&frame->out, pd_erase_members, pd_erase_member_count, &report);
  return frame->out.code;
}

/* ---- du ---- */

static bool put_row(void *ctx, const pd_du_row *row)
{
  pd_frame *frame = ctx;
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "prefix", row->prefix);
  if (row->is_ref) pd_json_put_bool(&frame->out, "is_ref", true);
  pd_json_put_number(&frame->out, "keys", row->keys);
  pd_json_put_number(&frame->out, "bytes", row->bytes);
  pd_json_close(&frame->out, '}');
  return frame->out.code == PD_OK && pd_frame_progress(frame, 0, 0, NULL) == PD_OK;
}

pd_code pd_cap_store_du(pd_frame *frame, pd_error *err)
{
  char at[PD_STORE_AT_SIZE];
  pd_du du;
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_READ, &store, err));
  TRY(pd_store_at(frame, store, "at", at, err));
  pd_json_key(&frame->out, "rows");
  pd_json_open(&frame->out, '[');
  TRY(pd_du_store(store, at, pd_in_text(frame, "prefix"), (unsigned)pd_in_int(frame, "depth", 1), put_row, frame, &du, err));
  pd_json_close(&frame->out, ']');
  pd_bind_write(&frame->out, pd_du_members, pd_du_member_count, &du);
  return frame->out.code;
}

/* ---- repair ---- */

typedef struct store_repair {
  pd_frame *frame;
  uint64_t count;
} store_repair;

static void put_detail(void *ctx, const pd_repair_finding *finding)
{
  store_repair *r = ctx;
  if (r->count++ >= DETAILS_MAX) return;
  pd_json_open(&r->frame->out, '{');
  pd_json_put_bool(&r->frame->out, "can_mend", finding->can_mend);
  pd_json_put_text(&r->frame->out, "what", finding->what);
  pd_json_close(&r->frame->out, '}');
}

static bool repair_goes_on(void *ctx, uint64_t done, uint64_t total)
{
  return go_on(((store_repair *)ctx)->frame, done, total);
}

/* By a handle of its own, which opens what pd_store_open refuses: so the store is not held here. */
pd_code pd_cap_store_repair(pd_frame *frame, pd_error *err)
{
  char name[PD_NAME_SIZE_MAX + 1] = "";
  store_repair r = {.frame = frame};
  pd_repair_options options = {.is_dry_run = pd_in_bool(frame, "dry_run", false),
                               .keep_going = pd_in_bool(frame, "keep_going", false),
                               .progress = repair_goes_on,
                               .finding = put_detail,
                               .ctx = &r};
  pd_repair_report report = {0};
  pd_error why = {0};
  (void)!pd_in_string(frame, "store", name, sizeof name);
  TRY(pd_store_check_system(frame, name, PD_STORE_WRITE, err));
  pd_json_key(&frame->out, "details");
  pd_json_open(&frame->out, '[');
  pd_code code = pd_repair(frame->home->uri, name, &options, &report, &why);
  if (code == PD_NOT_FOUND) return pd_store_missing(name, err);
  if (code != PD_CORRUPT || !report.findings) TRY(ended(frame, code, &why, err));
  pd_json_close(&frame->out, ']');
  pd_bind_write(&frame->out, pd_repair_members, pd_repair_member_count, &report);
  return frame->out.code;
}
