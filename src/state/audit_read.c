/*
 * audit_read.c: `audit.list` and `operator.feed`: the chain from its newest line back.
 *
 * One call looks at WALK_MAX lines, whatever fits: a query that nothing fits would else walk the whole chain and hold a thread as long. The
 * answer then says where to go on (`next_before`), and the batch of a given `before` is found by halving, not by walking.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/glob.h"
#include "state/audit.h"
#include "state/run.h"

#include <stdio.h>
#include <stdlib.h>

#define WALK_MAX 20000 /* lines that one call looks at */
#define BATCH_COST 20  /* reading a batch takes as long as so many lines */

typedef struct line_query {
  pd_bytes agent, capability; /* empty: any; the capability may have * and ? */
  bool own_only;              /* not what the operator did in the agent's name */
  bool notable_only;          /* the operator's feed */
  int64_t since_ms;
  uint64_t before, limit, count;
  uint64_t walked, next; /* next: the last line that was looked at; 0: none */
  bool has_more;
} line_query;

static pd_bytes inside(pd_json string)
{
  if (string.kind != PD_JSON_STRING) return (pd_bytes){0};
  return (pd_bytes){(const char *)string.raw.data + 1, string.raw.size - 2};
}

int64_t pd_audit_time(pd_json line)
{
  char text[PD_TIME_TEXT_SIZE];
  int64_t time_ms;
  pd_json last = pd_json_member(line, "last_time");
  pd_bytes bytes = inside(last.kind ? last : pd_json_member(line, "time"));
  if (!bytes.size || bytes.size >= sizeof text) return 0;
  memcpy(text, bytes.data, bytes.size);
  text[bytes.size] = 0;
  return pd_time_parse(text, &time_ms) ? time_ms : 0;
}

static bool is_wanted(const line_query *q, pd_json line)
{
  if (q->agent.size && !pd_bytes_equal(inside(pd_json_member(line, "agent")), q->agent)) return false;
  if (q->own_only && pd_json_member(line, "operator").kind) return false;
  if (q->capability.size && !pd_glob_match(q->capability, inside(pd_json_member(line, "capability")))) return false;
  if (q->notable_only && pd_json_is(pd_json_member(line, "permission"), "autonomous")) return false;
  return !q->since_ms || pd_audit_time(line) >= q->since_ms;
}

static pd_code visit_line(line_query *q, pd_bytes text, pd_json_writer *out, pd_error *err)
{
  pd_json line;
  if (pd_json_parse(text, &line, NULL)) return pd_error_set(err, PD_CORRUPT, "a line of the audit is no JSON; see audit.verify");
  uint64_t seq = 0;
  if (!pd_json_u64(pd_json_member(line, "seq"), &seq) || (q->before && seq >= q->before)) return PD_OK;
  bool is_line = is_wanted(q, line);
  q->has_more = q->walked >= WALK_MAX || (is_line && q->count == q->limit);
  if (q->has_more) return PD_OK;
  q->walked++;
  q->next = seq;
  if (!is_line) return PD_OK;
  q->count++;
  pd_json_value(out, line);
  return out->code;
}

/* The lines of one batch, the last one first. */
static pd_code visit_batch(line_query *q, pd_bytes rest, uint64_t count, pd_json_writer *out, pd_error *err)
{
  pd_bytes *lines = calloc(count + 1, sizeof *lines);
  if (!lines) return pd_error_memory(err, "lines of the audit");
  pd_code code = PD_OK;
  pd_id chain;
  bool is_end = false;
  uint64_t got = 0;
  for (; code == PD_OK && got <= count; got++) {
    code = pd_audit_next(&rest, &chain, &lines[got], &is_end, err);
    if (is_end) break;
  }
  for (; code == PD_OK && got && !q->has_more; got--) code = visit_line(q, lines[got - 1], out, err);
  free(lines);
  return code;
}

/* Does a batch begin at a line after `after` and before `before`? The first such one in *out. */
static pd_code next_batch(pd_view *view, uint64_t after, uint64_t before, uint64_t *out, pd_error *err)
{
  char from[PD_AUDIT_KEY_SIZE], to[PD_AUDIT_KEY_SIZE];
  pd_scan scan = {.from = pd_text(pd_audit_key(after + 1, from)), .to = pd_text(pd_audit_key(before, to)), .keys_only = true};
  pd_iter *iter = NULL;
  pd_entry entry;
  *out = 0;
  TRY(pd_view_scan(view, &scan, &iter, err));
  pd_code code = pd_iter_next(iter, &entry, NULL, err);
  if (!code && entry.key.size == strlen(from)) {
    memcpy(from, entry.key.data, entry.key.size);
    *out = strtoull(from + strlen(PD_AUDIT_BATCH), NULL, 10);
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* The batch that has the last line before q->before. */
static pd_code batch_before(pd_view *view, const pd_audit_head *head, uint64_t before, uint64_t *out, pd_error *err)
{
  uint64_t found = 0, low = head->start_batch ? head->start_batch - 1 : 0, high = before;
  *out = head->batch;
  if (!before || head->batch < before) return PD_OK;
  while (low + 1 < high) { /* the last batch before `before` begins after `low`, unless there is none */
    uint64_t middle = low + (high - low) / 2, next;
    TRY(next_batch(view, middle - 1, before, &next, err));
    if (next)
      found = low = next;
    else
      high = middle;
  }
  *out = found;
  return PD_OK;
}

static pd_code visit_back(pd_view *view, uint64_t batch, line_query *q, pd_json_writer *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_AUDIT_KEY_SIZE];
  while (batch && !q->has_more) {
    q->has_more = q->walked >= WALK_MAX;
    if (q->has_more) break;
    q->walked += BATCH_COST;
    pd_audit_top top;
    pd_bytes rest;
    pd_code code = pd_view_get(view, pd_text(pd_audit_key(batch, key)), &text, NULL, err);
    if (code == PD_NOT_FOUND) return PD_OK; /* audit.keep has removed it, and all before it */
    TRY(code);
    TRY(pd_audit_top_parse(pd_buf_bytes(&text), &top, &rest, err));
    if (top.count > text.size || top.before >= batch)
      return pd_error_set(err, PD_CORRUPT, "the audit batch '%s' is damaged; see audit.verify", key);
    if (q->since_ms && top.until_ms < q->since_ms) return PD_OK;
    if (!q->before || top.first < q->before) TRY(visit_batch(q, rest, top.count, out, err));
    batch = top.before;
  }
  return PD_OK;
}

static pd_code answer(pd_frame *frame, line_query *q, pd_error *err)
{
  pd_store *store;
  pd_audit_head head = {0};
  CLEANUP(pd_audit_view_close) pd_view *view = NULL; /* one moment, whatever is written meanwhile */
  uint64_t version;
  if (pd_audit_flush(frame->home, NULL)) {
    /* what cannot be written now is told by system.health; what is there can still be read */
  }
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  pd_code code = pd_view_open(store, PD_AUDIT_REF, &view, err);
  if (code == PD_OK) code = pd_audit_head_read(view, &head, &version, err);
  if (code && code != PD_NOT_FOUND) return code;
  pd_json_key(&frame->out, "lines");
  pd_json_open(&frame->out, '[');
  uint64_t batch = 0;
  if (code == PD_OK) TRY(batch_before(view, &head, q->before, &batch, err));
  if (batch) TRY(visit_back(view, batch, q, &frame->out, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_bool(&frame->out, "has_more", q->has_more);
  if (q->has_more && q->next) pd_json_put_number(&frame->out, "next_before", q->next);
  return PD_OK;
}

static pd_code read_since(pd_frame *frame, int64_t *out, pd_error *err)
{
  char text[64];
  if (!pd_in_text(frame, "since").data) return PD_OK;
  if (!pd_in_string(frame, "since", text, sizeof text) || !pd_time_parse(text, out))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'since' is no time; write 2026-11-15T10:20:30Z",
                          frame->capability->name);
  return PD_OK;
}

pd_code pd_cap_audit_list(pd_frame *frame, pd_error *err)
{
  line_query q = {
    .agent = pd_in_text(frame, "agent"),
    .capability = pd_in_text(frame, "capability"),
    .before = (uint64_t)pd_in_int(frame, "before", 0),
    .limit = (uint64_t)pd_in_int(frame, "limit", 100),
  };
  if (!frame->ctx->is_operator) {
    if (q.agent.size && !pd_bytes_equal(q.agent, pd_text(frame->agent)))
      return pd_error_set(err, PD_DENIED, "the audit of agent '%.*s' is not for '%s' to see", (int)q.agent.size, (const char *)q.agent.data,
                          frame->agent);
    q.agent = pd_text(frame->agent);
    q.own_only = true;
  }
  TRY(read_since(frame, &q.since_ms, err));
  return answer(frame, &q, err);
}

pd_code pd_cap_operator_feed(pd_frame *frame, pd_error *err)
{
  line_query q = {
    .notable_only = true,
    .before = (uint64_t)pd_in_int(frame, "before", 0),
    .limit = (uint64_t)pd_in_int(frame, "limit", 100),
  };
  TRY(read_since(frame, &q.since_ms, err));
  return answer(frame, &q, err);
}
