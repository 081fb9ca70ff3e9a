/*
 * repair.c: derived data made again from the log.
 *
 * Verification (verify.h) replays the log and knows byte for byte what each keyframe must have put into the bag. Repair lets it run twice:
 * the first time it notes which blobs are damaged or missing, the second time it puts what is missing.
 *
 *   M1  Only blobs that follow from the log are touched, and only after the first pass said that they are not what their id says.
 *   M2  bag_put leaves an id alone that is there, so damaged blobs are swept between the passes. Killed there, they are missing
 *       instead of damaged: no worse, and the next repair goes on.
 *   M3  A put is durable with the next append (B7): the note about the repair is that append.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/verify.h"

#include <stdio.h>
#include <stdlib.h>

#define PUT_COUNT 256
#define PUT_BYTES ((size_t)512 << 10)
#define REPAIR_KIND "care"
#define REPAIR_NAME "repair"

typedef struct repairer {
  pd_store *s;
  const pd_repair_options *options;
  pd_repair_report report;
  pd_id *damaged; /* to be swept; sorted after the first pass */
  size_t damaged_count, damaged_capacity;
  pd_buf bytes; /* blobs on their way into the bag */
  pd_id ids[PUT_COUNT];
  size_t ends[PUT_COUNT];
  size_t count;
  uint64_t check_findings; /* of the backend about itself */
  unsigned pass;
} repairer;

static void tell(repairer *r, bool can_mend, const char *what)
{
  pd_repair_finding finding = {can_mend, what};
  if (r->options->finding) r->options->finding(r->options->ctx, &finding);
}

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
  repairer *r = ctx;
  return !r->options->progress || r->options->progress(r->options->ctx, done + r->pass * total, 2 * total);
}

/* ---- the first pass: what is wrong ---- */

static void count_check(void *ctx, const char *what)
{
  repairer *r = ctx;
  (void)what; /* verification tells it */
  r->check_findings++;
}

static void note_finding(void *ctx, const char *what)
{
  repairer *r = ctx;
  if (r->pass) return; /* told before */
  r->report.findings++;
  tell(r, false, what);
}

static pd_code note_blob(void *ctx, const char *what, const pd_id *id, pd_bytes blob, pd_error *err)
{
  repairer *r = ctx;
  CLEANUP(pd_buf_done) pd_buf stored = {0};
  char hex[PD_ID_HEX_SIZE], line[200];
  (void)blob;
  bool is_missing = r->s->ops->bag_get(r->s->backend, id, &stored, NULL) == PD_NOT_FOUND;
  snprintf(line, sizeof line, "%s is %s: %.16s…", what, is_missing ? "missing" : "damaged", pd_id_hex(id, hex));
  tell(r, true, line);
  r->report.missing += is_missing;
  r->report.damaged += !is_missing;
  if (is_missing) return PD_OK;
  TRY(pd_array_grow(&r->damaged, r->damaged_count, &r->damaged_capacity, sizeof *r->damaged, "a repair", err));
  r->damaged[r->damaged_count++] = *id;
  return PD_OK;
}

static pd_code run_pass(repairer *r, pd_mend mend, pd_error *err)
{
  pd_verify_options options = {.progress = show_progress, .finding = note_finding, .ctx = r};
  pd_verify_report report = {0};
  pd_code code = pd_verify_mending(r->s, &options, mend, r, &report, err);
  r->report.records = report.records;
  return code == PD_CORRUPT && report.findings ? PD_OK : code;
}

static pd_code look(repairer *r, pd_error *err)
{
  const pd_error *trouble = &r->s->trouble;
  if (r->s->ops->check) TRY(r->s->ops->check(r->s->backend, count_check, r, err));
  if (trouble->code) note_finding(r, trouble->message);
  return run_pass(r, note_blob, err);
}

/* ---- between the passes: make room ---- */

static int compare_ids(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(pd_id));
}

static bool is_kept(void *ctx, const pd_id *id)
{
  const repairer *r = ctx;
  return !bsearch(id, r->damaged, r->damaged_count, sizeof *r->damaged, compare_ids);
}

static pd_code sweep_damaged(repairer *r, pd_error *err)
{
  const pd_backend_ops *ops = r->s->ops;
  uint64_t mark, bytes = 0;
  if (!r->damaged_count) return PD_OK;
  if (!ops->bag_sweep || !ops->bag_mark)
    return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot remove damaged blobs, so they cannot be replaced", ops->scheme);
  qsort(r->damaged, r->damaged_count, sizeof *r->damaged, compare_ids);
  TRY(ops->bag_mark(r->s->backend, &mark, err));
  return ops->bag_sweep(r->s->backend, mark, is_kept, r, &bytes, err);
}

/* ---- the second pass: put what is missing ---- */

static pd_code put_blobs(repairer *r, pd_error *err)
{
  pd_bytes blobs[PUT_COUNT];
  size_t at = 0;
  if (!r->count) return PD_OK;
  for (size_t i = 0; i < r->count; at = r->ends[i++]) blobs[i] = (pd_bytes){r->bytes.data + at, r->ends[i] - at};
  TRY(r->s->ops->bag_put(r->s->backend, r->ids, blobs, r->count, err));
  r->report.mended += r->count;
  r->count = 0;
  pd_buf_clear(&r->bytes);
  return PD_OK;
}

static pd_code mend_blob(void *ctx, const char *what, const pd_id *id, pd_bytes blob, pd_error *err)
{
  repairer *r = ctx;
  (void)what;
  TRY(pd_buf_append(&r->bytes, blob.data, blob.size, err));
  r->ids[r->count] = *id;
  r->ends[r->count++] = r->bytes.size;
  return r->count == PUT_COUNT || r->bytes.size >= PUT_BYTES ? put_blobs(r, err) : PD_OK;
}

/* The database's own structures, if everything in it can be read: then writing it anew loses nothing. */
static pd_code mend_database(repairer *r, pd_error *err)
{
  if (!r->check_findings || r->report.findings > r->check_findings || !r->s->ops->compact) return PD_OK;
  TRY(r->s->ops->compact(r->s->backend, err));
  r->report.findings = r->check_findings = 0;
  TRY(r->s->ops->check(r->s->backend, count_check, r, err));
  r->report.findings = r->check_findings;
  return PD_OK;
}

/* ---- afterwards ---- */

static pd_code write_note(repairer *r, pd_store *whole, pd_error *err)
{
  char text[160];
  int size = snprintf(text, sizeof text, "{\"damaged\":%llu,\"missing\":%llu,\"mended\":%llu}", (unsigned long long)r->report.damaged,
                      (unsigned long long)r->report.missing, (unsigned long long)r->report.mended);
  pd_note note = {.reason = "repair"};
  return pd_meta_put(whole, REPAIR_KIND, REPAIR_NAME, (pd_bytes){text, (size_t)size}, PD_ANY_VERSION, &note, NULL, err);
}

/* The store opens as for everybody; a keyframe that could not be made again is left behind by a new one. */
static pd_code open_whole(repairer *r, const char *uri, pd_store **out, pd_error *err)
{
  pd_options options = {.must_exist = true};
  pd_code code = pd_store_open(uri, r->s->agent, &options, out, err);
  if (code != PD_CORRUPT || r->s->trouble.code) return code;
  TRY(pd_keyframe_write(r->s, err));
  return pd_store_open(uri, r->s->agent, &options, out, err);
}

static pd_code mend(repairer *r, const char *uri, pd_error *err)
{
  pd_store *whole = NULL;
  r->pass = 1;
  TRY(sweep_damaged(r, err));
  TRY(run_pass(r, mend_blob, err));
  TRY(put_blobs(r, err));
  TRY(mend_database(r, err));
  if (r->s->trouble.code) return PD_OK; /* its log is damaged: nothing can be appended to it */
  TRY(open_whole(r, uri, &whole, err));
  pd_code code = write_note(r, whole, err); /* M3 */
  pd_code closed = pd_store_close(whole, code ? NULL : err);
  return code ? code : closed;
}

/* ---- refs that point at what gc retired ---- */

static bool is_lost(pd_store *s, pd_ref_slot *slot)
{
  pd_node *root;
  if (slot->seen.is_deleted || strcmp(slot->name, PD_META_REF) == 0 || pd_retention_ready(s, NULL)) return false;
  return pd_is_retired(s, slot->seen.commit.seq) || pd_head_root(s, &slot->seen, &root, NULL) == PD_RETIRED;
}

/* Of what it says, not of the disk or the memory: those may be well the next time. */
static bool is_damage(pd_code code)
{
  return code == PD_RETIRED || code == PD_CORRUPT || code == PD_ERASED;
}

/* Where the ref was last and could be read; *out_found false if nowhere. */
static pd_code find_place(pd_store *s, const pd_ref_slot *slot, pd_commit *out, bool *out_found, pd_error *err)
{
  *out_found = false;
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  for (uint64_t seq = slot->seen.last_seq; seq && seq >= s->retention.state.cut; seq = rec.ref_prev_seq) {
    pd_node *root;
    pd_code code = pd_record_at(s, seq, &scratch, &rec, err);
    if (code) return is_damage(code) ? PD_OK : code;
    if (rec.kind == PD_RECORD_SWITCH || rec.kind == PD_RECORD_REF_DELETE || pd_is_retired(s, rec.target_seq)) continue;
    code = pd_tree_of(s, rec.target_seq, &root, err);
    if (is_damage(code)) continue;
    TRY(code);
    pd_node_unref(&s->tree.pool, root);
    *out = (pd_commit){rec.commit, rec.tree, rec.target_seq};
    *out_found = true;
    return PD_OK;
  }
  return PD_OK;
}

static pd_code plan_locked(pd_store *s, size_t *index, pd_intent *out, bool *out_found, pd_commit *target, char line[256], pd_error *err)
{
  TRY(pd_settle(s, err));
  TRY(pd_refresh(s, err));
  while (*index < s->slot_count && !is_lost(s, s->slots[*index])) ++*index;
  *out_found = *index < s->slot_count;
  if (!*out_found) return PD_OK;
  const pd_ref_slot *slot = s->slots[(*index)++];
  bool has_place, is_current = strcmp(slot->name, s->current) == 0;
  TRY(find_place(s, slot, target, &has_place, err));
  if (!has_place) *target = (pd_commit){pd_commit_root_id(), pd_tree_empty_id(), 0};
  bool is_moved = has_place || is_current; /* the current ref cannot be deleted */
  *out = (pd_intent){.kind = is_moved ? PD_RECORD_RESET : PD_RECORD_REF_DELETE, .ref = slot->name};
  if (is_moved) out->target = target;
  if (has_place)
    snprintf(line, 256, "ref '%.150s' points at what gc retired: it goes back to record %llu", slot->name, (unsigned long long)target->seq);
  else
    snprintf(line, 256, "ref '%.150s' points at what gc retired: it is %s", slot->name, is_current ? "emptied" : "deleted");
  return PD_OK;
}

/* The next lost ref, and what to do with it; *out_found false at the end. */
static pd_code plan_ref(pd_store *s, size_t *index, pd_intent *out, bool *out_found, pd_commit *target, char line[256], pd_error *err)
{
  *out_found = false;
  pd_store_lock(s);
  pd_code code = plan_locked(s, index, out, out_found, target, line, err);
  pd_store_unlock(s);
  return code;
}

/* In a store that is opened as for everybody. */
static pd_code mend_refs(repairer *r, const char *uri, pd_error *err)
{
  pd_store *s = NULL;
  pd_intent intent;
  pd_commit target;
  char line[256];
  pd_options options = {.must_exist = true, .is_read_only = r->options->is_dry_run};
  pd_note note = {.reason = "repair"};
  if (r->s->trouble.code || pd_store_open(uri, r->s->agent, &options, &s, NULL)) return PD_OK; /* which was told */
  bool found;
  size_t index = 0;
  pd_code code = plan_ref(s, &index, &intent, &found, &target, line, err);
  while (!code && found) {
    intent.note = &note;
    tell(r, true, line);
    r->report.refs++;
    if (!r->options->is_dry_run) code = pd_write(s, &intent, NULL, err);
    if (!code) code = plan_ref(s, &index, &intent, &found, &target, line, err);
  }
  pd_code closed = pd_store_close(s, code ? NULL : err);
  return code ? code : closed;
}

static pd_code repair(repairer *r, const char *uri, pd_error *err)
{
  TRY(look(r, err));
  bool has_work = r->report.damaged || r->report.missing || r->check_findings;
  bool is_hopeless = r->report.findings > r->check_findings && !r->options->keep_going;
  if (has_work && !r->options->is_dry_run && !is_hopeless) TRY(mend(r, uri, err));
  if (!is_hopeless) TRY(mend_refs(r, uri, err));
  if (r->options->progress) r->options->progress(r->options->ctx, 1, 1);
  return PD_OK;
}

/* What stopped the repair is a finding like the others: of the cut that gc made, say, nothing can be made again. */
static pd_code take_as_finding(repairer *r, const pd_error *why)
{
  pd_repair_finding finding = {.can_mend = false, .what = why->message};
  r->report.findings++;
  if (r->options->finding) r->options->finding(r->options->ctx, &finding);
  return PD_OK;
}

pd_code pd_repair(const char *uri, const char *agent, const pd_repair_options *options, pd_repair_report *out, pd_error *err)
{
  static const pd_repair_options defaults;
  repairer *r = calloc(1, sizeof *r);
  if (!r) return pd_error_memory(err, "a repair");
  r->options = options ? options : &defaults;
  pd_code code = pd_store_open_mending(uri, agent, r->options->is_dry_run, &r->s, err);
  if (!code) {
    pd_error why;
    code = repair(r, uri, &why);
    if (code == PD_CORRUPT)
      code = take_as_finding(r, &why);
    else if (code && err)
      *err = why;
  }
  if (!code && out) *out = r->report;
  if (!code && r->report.findings)
    code = pd_error_set(err, PD_CORRUPT, "the store of agent '%s' has %llu damage%s that cannot be repaired", agent,
                        (unsigned long long)r->report.findings, r->report.findings == 1 ? "" : "s");
  (void)!pd_store_close(r->s, NULL); /* it wrote nothing of its own */
  pd_buf_done(&r->bytes);
  free(r->damaged);
  free(r);
  return code;
}
