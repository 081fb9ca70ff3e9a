/* resolve.c: points in history as text: refs, tags, commit ids and their beginnings, X~3, @time, #17. The grammar is in perdure.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/number.h"
#include "engine/marks.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <ctype.h>

#define AT_SIZE_MAX 512
#define SHORT_ID_MIN 4
#define BACK_MAX 1000000000

/* An `at` taken apart. */
typedef struct point {
  char name[AT_SIZE_MAX]; /* what stands before ~ and @; may be empty */
  bool has_time;
  int64_t time_ms;
  uint64_t back;
} point;

static pd_code malformed(const char *at, const char *why, pd_error *err)
{
  return pd_error_set(err, PD_INVALID, "'%.100s' names no point in history: %s", at, why);
}

/* ~, ~3, ~~2: all add up. */
static pd_code parse_back(const char *at, const char *p, uint64_t *out, pd_error *err)
{
  *out = 0;
  while (*p == '~') {
    uint64_t n = 1;
    p++;
    if (isdigit((unsigned char)*p) && !pd_u64_take(&p, &n)) return malformed(at, *p == '0' ? "'~' takes a number" : "too far back", err);
    if (n > BACK_MAX || (*out += n) > BACK_MAX) return malformed(at, "too far back", err);
  }
  return *p ? malformed(at, "'~' takes a number", err) : PD_OK;
}

static bool is_message(const char *at)
{
  return strncmp(at, PD_MESSAGE_PREFIX, sizeof PD_MESSAGE_PREFIX - 1) == 0;
}

static pd_code parse_point(const char *at, point *out, pd_error *err)
{
  size_t size = strlen(at);
  memset(out, 0, sizeof *out);
  if (size >= AT_SIZE_MAX) return malformed(at, "it is too long", err);
  size_t tilde = strcspn(at, "~"), time_at = strcspn(at, "@");
  if (is_message(at)) time_at = tilde; /* a message's id may have an '@' of its own */
  TRY(parse_back(at, at + tilde, &out->back, err));
  memcpy(out->name, at, tilde < time_at ? tilde : time_at);
  if (time_at >= tilde) return PD_OK;
  char text[AT_SIZE_MAX] = {0};
  memcpy(text, at + time_at + 1, tilde - time_at - 1);
  out->has_time = true;
  if (!pd_time_parse(text, &out->time_ms)) return malformed(at, "the time is not like 2026-11-15T10:20:30Z", err);
  return PD_OK;
}

/* ---- by id ---- */

typedef struct id_search {
  pd_store *s;
  char hex[PD_ID_HEX_SIZE];
  size_t digits;
  bool is_found, is_ambiguous;
  bool met_retired; /* one that may be it, but its record is gone */
  pd_commit found;
} id_search;

static bool is_settled(const id_search *q)
{
  return q->is_ambiguous || (q->is_found && q->digits == 2 * PD_ID_SIZE);
}

/* A record whose commit's first bytes fit: does the rest? */
static pd_code consider(void *ctx, uint64_t seq, bool *out_stop, pd_error *err)
{
  id_search *q = ctx;
  pd_commit commit;
  char hex[PD_ID_HEX_SIZE];
  q->met_retired |= pd_is_retired(q->s, seq);
  if (pd_is_retired(q->s, seq)) return PD_OK;
  TRY(pd_commit_at(q->s, seq, &commit, err));
  if (strncmp(pd_id_hex(&commit.id, hex), q->hex, q->digits) != 0) return PD_OK;
  if (q->is_found && !pd_id_equal(&q->found.id, &commit.id)) q->is_ambiguous = true;
  if (!q->is_found) q->found = commit;
  q->is_found = true;
  *out_stop = is_settled(q);
  return PD_OK;
}

/* The first 32 bits of the ids that begin with these digits. */
static void prefix_range(const char *hex, size_t digits, uint32_t *out_low, uint32_t *out_high)
{
  uint32_t low = 0;
  size_t used = digits < 8 ? digits : 8;
  for (size_t i = 0; i < used; i++) {
    char c = hex[i];
    low = low << 4 | (uint32_t)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
  }
  size_t free_bits = 32 - 4 * used;
  *out_low = low << free_bits; /* at least 4 digits: never a shift by 32 */
  *out_high = *out_low | (uint32_t)((1ull << free_bits) - 1);
}

static pd_code no_commit(pd_store *s, const char *text, bool met_retired, pd_error *err)
{
  pd_error why;
  if (s->retention.state.cut <= 1) return pd_error_set(err, PD_NOT_FOUND, "there is no commit '%s'", text);
  (void)!pd_retired_error(s, 0, &why);
  return pd_error_set(err, met_retired ? PD_RETIRED : PD_NOT_FOUND, "there is no commit '%s' any more, or never was: %s", text,
                      why.message);
}

static pd_code resolve_id(pd_store *s, const char *text, pd_commit *out, pd_error *err)
{
  id_search q = {.s = s, .digits = strlen(text)};
  for (size_t i = 0; i < q.digits; i++) q.hex[i] = (char)tolower((unsigned char)text[i]);
  uint32_t low, high;
  prefix_range(q.hex, q.digits, &low, &high);
  pd_commit root = {pd_commit_root_id(), pd_tree_empty_id(), 0};
  char hex[PD_ID_HEX_SIZE];
  if (strncmp(pd_id_hex(&root.id, hex), q.hex, q.digits) == 0) q.found = root, q.is_found = true;
  if (!is_settled(&q)) TRY(pd_index_search(s, low, high, consider, &q, err));
  if (q.is_ambiguous) return pd_error_set(err, PD_AMBIGUOUS, "commit id '%s' fits more than one commit; give more digits", text);
  if (!q.is_found) return no_commit(s, text, q.met_retired, err);
  *out = q.found;
  return PD_OK;
}

static bool is_hex(const char *text)
{
  size_t size = strlen(text);
  return size >= SHORT_ID_MIN && size <= 2 * PD_ID_SIZE && strspn(text, "0123456789abcdefABCDEF") == size;
}

pd_code pd_commit_find(pd_store *s, const pd_id *id, uint64_t seq, pd_commit *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  if (seq <= s->seen_seq && !pd_commit_at(s, seq, &commit, NULL) && pd_id_equal(&commit.id, id)) {
    *out = commit;
    return PD_OK;
  }
  return resolve_id(s, pd_id_hex(id, hex), out, err);
}

/* ---- by time ---- */

/* Times go back in a log at most where a clock was wrong (commit.c, pd_time_next): what comes before that is searched only if all behind it
 * is later. */
pd_code pd_last_before(pd_store *s, int64_t time_ms, uint64_t *out_seq, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  uint64_t cut = s->retention.state.cut, low = cut ? cut : 1, high = s->seen_seq + 1;
  pd_rec rec;
  if (s->back_seq > low && s->back_seq < high) {
    TRY(pd_record_at(s, s->back_seq, &scratch, &rec, err));
    *(rec.time_ms <= time_ms ? &low : &high) = s->back_seq;
  }
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    TRY(pd_record_at(s, mid, &scratch, &rec, err));
    if (rec.time_ms <= time_ms)
      low = mid + 1;
    else
      high = mid;
  }
  *out_seq = low - 1;
  return PD_OK;
}

/* The last record that moved the ref, as the first keyframe after `limit` knows it: all later ones can be left out. If that cannot be had,
 * the way from the head is longer. */
static uint64_t last_mover(pd_store *s, const pd_ref_slot *slot, uint64_t limit)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  uint64_t last = slot->seen.last_seq;
  size_t i = s->frame_count;
  while (i && s->frames[i - 1].covers >= limit) i--;
  if (i == s->frame_count || last <= s->frames[i].covers) return last;
  if (pd_load_blob(s, &s->frames[i].catalog, "a keyframe's catalog", &blob, NULL)) return last;
  if (pd_catalog_decode(pd_buf_bytes(&blob), &catalog, NULL)) return last;
  for (size_t k = 0; k < catalog.ref_count; k++)
    if (strcmp(catalog.refs[k].name, slot->name) == 0 && catalog.refs[k].last_seq) last = catalog.refs[k].last_seq;
  return last;
}

/* Let others in before the walk goes on at `seq`. */
static pd_code rest(pd_store *s, uint64_t seq, pd_error *err)
{
  pd_store_yield(s);
  return pd_segment_bring(s, seq, err);
}

pd_code pd_ref_after(pd_store *s, const pd_ref_slot *slot, uint64_t limit, bool may_yield, pd_rec *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec = {0};
  TRY(pd_retention_ready(s, err));
  uint64_t seq = last_mover(s, slot, limit);
  for (size_t steps = 0; seq; steps++) {
    if (may_yield && (steps % PD_YIELD_STEPS == 0 || !pd_segment_loaded(s, seq))) TRY(rest(s, seq, err));
    if (seq < s->retention.state.cut) return pd_retired_error(s, seq, err);
    TRY(pd_record_walk(s, seq, &scratch, &rec, err));
    if (seq <= limit && rec.kind != PD_RECORD_SWITCH) break;
    seq = rec.ref_prev_seq;
  }
  if (!seq && limit < s->retention.state.cut && s->retention.state.cut > 1) return pd_retired_error(s, 0, err); /* G7 */
  *out = seq ? rec : (pd_rec){0};
  return PD_OK;
}

/* Where the ref was at the cut, if that is where it was at the time too. */
static pd_code resolve_at_cut(pd_store *s, const pd_ref_slot *slot, const point *p, pd_commit *out, pd_error *err)
{
  const pd_catalog *cut = &s->retention.catalog;
  char time[PD_TIME_TEXT_SIZE];
  pd_error why;
  for (size_t i = 0; i < cut->ref_count; i++) {
    if (strcmp(cut->refs[i].name, slot->name) != 0 || cut->refs[i].is_deleted || cut->refs[i].updated_ms > p->time_ms) continue;
    *out = cut->refs[i].commit;
    return PD_OK;
  }
  (void)!pd_retired_error(s, 0, &why);
  return pd_error_set(err, PD_RETIRED, "where ref '%s' was at %s is not known any more: %s", slot->name, pd_time_text(p->time_ms, time),
                      why.message);
}

static pd_code resolve_time(pd_store *s, const pd_ref_slot *slot, const point *p, bool may_yield, pd_commit *out, pd_error *err)
{
  uint64_t limit;
  pd_rec rec;
  pd_error why;
  TRY(pd_retention_ready(s, err));
  TRY(pd_last_before(s, p->time_ms, &limit, err));
  pd_code code = pd_ref_after(s, slot, limit, may_yield, &rec, &why);
  if (code == PD_RETIRED) return resolve_at_cut(s, slot, p, out, err);
  if (code && err) *err = why;
  if (code) return code;
  char time[PD_TIME_TEXT_SIZE];
  if (!rec.seq || rec.kind == PD_RECORD_REF_DELETE)
    return pd_error_set(err, PD_NOT_FOUND, "ref '%s' did not exist at %s", slot->name, pd_time_text(p->time_ms, time));
  *out = (pd_commit){rec.commit, rec.tree, rec.target_seq};
  return PD_OK;
}

/* ---- by tag ---- */

/* PD_NOT_FOUND if no tag has this name. A whole commit id is never one, which saves the look. */
static pd_code resolve_tag(pd_store *s, const char *name, pd_commit *out, pd_error *err)
{
  if (strlen(name) == 2 * PD_ID_SIZE || pd_ref_check(name, NULL)) return PD_NOT_FOUND;
  pd_error why;
  pd_code code = pd_mark_commit(s, PD_MARK_TAG, name, out, &why);
  if (code && code != PD_NOT_FOUND && err) *err = why;
  return code;
}

/* ---- all together ---- */

static pd_code resolve_name(pd_store *s, const char *at, const point *p, bool may_yield, pd_commit *out, pd_error *err)
{
  pd_ref_slot *slot = pd_slot_find(s, *p->name ? p->name : s->ref);
  if (slot && !slot->seen.is_deleted) {
    if (p->has_time) return resolve_time(s, slot, p, may_yield, out, err);
    *out = slot->seen.commit;
    return PD_OK;
  }
  if (p->has_time) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s'", *p->name ? p->name : s->ref);
  if (!*p->name) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s'", s->ref);
  if (p->name[0] == '#') {
    uint64_t seq;
    if (!pd_u64_parse(p->name + 1, &seq) || !seq) return malformed(at, "'#' takes the number of a record", err);
    if (seq > s->seen_seq) return pd_error_set(err, PD_NOT_FOUND, "there is no record %s", p->name); /* PD_SEQ_GONE is a number, too */
    return pd_commit_at(s, seq, out, err);
  }
  if (is_message(p->name)) return pd_message_commit(s, p->name + sizeof PD_MESSAGE_PREFIX - 1, out, err);
  pd_code code = resolve_tag(s, p->name, out, err);
  if (code != PD_NOT_FOUND) return code;
  if (strcmp(p->name, "root") == 0) return pd_commit_at(s, 0, out, err);
  if (is_hex(p->name)) return resolve_id(s, p->name, out, err);
  return pd_error_set(err, PD_NOT_FOUND, "there is no ref, tag or commit '%s'", p->name);
}

bool pd_resolve_head(pd_store *s, const char *at, pd_ref_slot **out_slot)
{
  pd_ref_slot *slot = pd_slot_find(s, at && *at ? at : s->ref);
  if (!slot || slot->seen.is_deleted) return false;
  *out_slot = slot;
  return true;
}

static pd_code resolve_point(pd_store *s, const char *at, bool may_yield, pd_commit *out, pd_error *err)
{
  point p;
  pd_commit commit;
  TRY(parse_point(at ? at : "", &p, err));
  TRY(resolve_name(s, at, &p, may_yield, &commit, err));
  if (p.back) {
    uint64_t seq = commit.seq, left = p.back;
    TRY(pd_line_back(s, &seq, &left, may_yield, err));
    if (left)
      return pd_error_set(err, PD_NOT_FOUND, "'%s' goes back further than history: only %llu commits", at,
                          (unsigned long long)(p.back - left));
    TRY(pd_commit_at(s, seq, &commit, err));
  }
  *out = commit;
  return PD_OK;
}

pd_code pd_resolve_locked(pd_store *s, const char *at, pd_commit *out, pd_error *err)
{
  return resolve_point(s, at, false, out, err);
}

pd_code pd_resolve_to_read(pd_store *s, const char *at, pd_commit *out, pd_error *err)
{
  return resolve_point(s, at, true, out, err);
}

pd_code pd_resolve(pd_store *store, const char *at, pd_commit *out, pd_error *err)
{
  pd_store_lock_to_read(store);
  pd_code code = pd_refresh_to_read(store, err);
  if (!code) code = pd_resolve_to_read(store, at, out, err);
  pd_store_unlock(store);
  return code;
}
