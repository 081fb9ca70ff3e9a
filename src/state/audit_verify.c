/* audit_verify.c: `audit.verify`: the store that holds the audit, and then every link of the chain, recomputed. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/audit.h"
#include "state/run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FINDINGS_MAX 100 /* told; more are counted */

typedef struct checker {
  pd_store *store;
  pd_view *view;
  pd_json_writer *out; /* inside the array of findings */
  uint64_t findings, lines, batches;
  uint64_t anchor_seq; /* 0: none */
  pd_id anchor;
  bool has_anchor;
  uint64_t next, batch_before;
  int64_t until_ms;
  bool knows_until; /* false before the first batch, if audit.keep removed those before it */
  pd_id chain;
} checker;

static void finding(checker *c, const char *fmt, ...) PD_PRINTF(2, 3);
static void finding(checker *c, const char *fmt, ...)
{
  char text[PD_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (c->findings++ < FINDINGS_MAX) pd_json_text(c->out, pd_text(text));
}

static void store_finding(void *ctx, const char *what)
{
  finding(ctx, "the system store: %s", what);
}

static void check_line(checker *c, const char *key, const pd_id *chain, pd_bytes line)
{
  pd_json json = {0};
  uint64_t seq = 0;
  pd_id want = pd_audit_link(&c->chain, line);
  if (!pd_id_equal(&want, chain)) finding(c, "%s: line %" PRIu64 " does not fit the chain", key, c->next);
  if (pd_json_parse(line, &json, NULL) || !pd_json_u64(pd_json_member(json, "seq"), &seq) || seq != c->next)
    finding(c, "%s: line %" PRIu64 " does not have that number", key, c->next);
  if (c->next == c->anchor_seq) {
    c->has_anchor = true;
    if (!pd_id_equal(&c->anchor, chain)) finding(c, "line %" PRIu64 " is not the one of the anchor", c->next);
  }
  int64_t time_ms = pd_audit_time(json);
  if (time_ms > c->until_ms) c->until_ms = time_ms;
  c->chain = *chain; /* go on from what is there: one damaged line is one finding */
  c->lines++;
  c->next++;
}

/* Does the batch's first line say what follows, and from what? */
static void check_top(checker *c, const char *key, const pd_audit_top *top)
{
  char own[PD_AUDIT_KEY_SIZE];
  if (top->first != c->next || strcmp(pd_audit_key(top->first, own), key) != 0)
    finding(c, "%s: it begins with line %" PRIu64 ", and %" PRIu64 " was to come: lines are missing", key, top->first, c->next);
  if (!pd_id_equal(&top->chain, &c->chain)) finding(c, "%s: it does not continue the line before it", key);
  if (c->batch_before && top->before != c->batch_before) finding(c, "%s: it names another batch as the one before", key);
  c->next = top->first;
}

static void check_batch(checker *c, const char *key, pd_bytes text)
{
  pd_audit_top top;
  pd_bytes rest, line;
  pd_id chain;
  pd_error why = {0};
  bool is_end = false;
  uint64_t before = c->lines;
  c->batches++;
  if (pd_audit_top_parse(text, &top, &rest, &why)) {
    finding(c, "%s: %s", key, why.message);
    return;
  }
  check_top(c, key, &top);
  while (!is_end) {
    if (pd_audit_next(&rest, &chain, &line, &is_end, &why)) {
      finding(c, "%s: line %" PRIu64 ": %s", key, c->next, why.message);
      break;
    }
    if (!is_end) check_line(c, key, &chain, line);
  }
  if (c->lines - before != top.count) finding(c, "%s: it has %" PRIu64 " lines, not %" PRIu64, key, c->lines - before, top.count);
  if (c->knows_until ? c->until_ms != top.until_ms : c->until_ms > top.until_ms) finding(c, "%s: its time is not that of its lines", key);
  c->until_ms = top.until_ms;
  c->knows_until = true;
  c->batch_before = top.first;
}

static pd_code check_batches(checker *c, pd_error *err)
{
  pd_scan scan = {.prefix = pd_text(PD_AUDIT_BATCH), .keys_only = true};
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_error why = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_view_scan(c->view, &scan, &iter, err));
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    char key[PD_AUDIT_KEY_SIZE];
    snprintf(key, sizeof key, "%.*s", (int)entry.key.size, (const char *)entry.key.data);
    if (pd_view_get(c->view, entry.key, &text, NULL, &why))
      finding(c, "%s: %s", key, why.message);
    else
      check_batch(c, key, pd_buf_bytes(&text));
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static void check_ends(checker *c, const pd_audit_head *head)
{
  if (c->next != head->seq + 1)
    finding(c, "the chain ends with line %" PRIu64 ", and its head names %" PRIu64, c->next - 1, head->seq);
  else if (!pd_id_equal(&c->chain, &head->chain))
    finding(c, "the chain's head does not fit its last line");
  if (c->batch_before != head->batch) finding(c, "the chain's head names another batch as the last one");
  if (c->until_ms != head->until_ms) finding(c, "the chain's head has another time than the last batch");
  if (c->anchor_seq && !c->has_anchor && c->anchor_seq >= head->start_seq)
    finding(c, "line %" PRIu64 " of the anchor is not there", c->anchor_seq);
}

static pd_code check_chain(checker *c, pd_audit_head *head, pd_error *err)
{
  pd_error why = {0};
  uint64_t version;
  pd_code code = pd_audit_head_read(c->view, head, &version, &why);
  if (code) {
    finding(c, "%s", why.message);
    return code == PD_NO_MEMORY ? pd_error_memory(err, "the audit") : PD_OK;
  }
  c->next = head->start_seq;
  c->knows_until = head->start_seq == 1;
  c->chain = head->start_chain;
  TRY(check_batches(c, err));
  check_ends(c, head);
  return PD_OK;
}

/* SEQ:CHAIN, as an earlier verification told it. */
static pd_code read_anchor(pd_frame *frame, checker *c, pd_error *err)
{
  char text[128], *end;
  if (!pd_in_string(frame, "anchor", text, sizeof text)) return PD_OK;
  c->anchor_seq = strtoull(text, &end, 10);
  if (!c->anchor_seq || *end != ':' || !pd_id_parse(end + 1, &c->anchor))
    return pd_error_named(err, PD_INVALID, "InvalidInput",
                          "audit.verify: field 'anchor' is no LINE:CHAIN, as an earlier verification told it");
  return PD_OK;
}

static void answer_ends(pd_json_writer *out, const checker *c, const pd_audit_head *head)
{
  char hex[PD_ID_HEX_SIZE], anchor[PD_ID_HEX_SIZE + 24];
  pd_json_put_number(out, "finding_count", c->findings);
  pd_json_put_bool(out, "valid", !c->findings);
  pd_json_put_number(out, "lines", c->lines);
  pd_json_put_number(out, "batches", c->batches);
  pd_json_put_number(out, "first", head->start_seq);
  pd_json_put_number(out, "last", head->seq);
  pd_json_put_number(out, "removed", head->start_seq ? head->start_seq - 1 : 0);
  snprintf(anchor, sizeof anchor, "%" PRIu64 ":%s", head->seq, pd_id_hex(&head->chain, hex));
  pd_json_key(out, "anchor");
  if (head->seq)
    pd_json_text(out, pd_text(anchor));
  else
    pd_json_null(out);
}

pd_code pd_cap_audit_verify(pd_frame *frame, pd_error *err)
{
  checker c = {.out = &frame->out};
  pd_audit_head head = {.start_seq = 1};
  CLEANUP(pd_audit_view_close) pd_view *view = NULL;
  pd_verify_options options = {.finding = store_finding, .ctx = &c};
  TRY(read_anchor(frame, &c, err));
  if (pd_audit_flush(frame->home, NULL)) {
    /* told by system.health */
  }
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &c.store, err));
  pd_json_key(&frame->out, "findings");
  pd_json_open(&frame->out, '[');
  pd_code code = pd_verify(c.store, &options, NULL, err); /* also the copies that reading the chain would not touch */
  if (code && code != PD_CORRUPT) return code;
  code = pd_view_open(c.store, PD_AUDIT_REF, &view, err);
  if (code == PD_OK) {
    c.view = view;
    TRY(check_chain(&c, &head, err));
  } else if (code != PD_NOT_FOUND) {
    finding(&c, "%s", err->message);
  } else if (c.anchor_seq) {
    finding(&c, "there is no audit, and line %" PRIu64 " of the anchor was to be in it", c.anchor_seq);
  }
  pd_json_close(&frame->out, ']');
  answer_ends(&frame->out, &c, &head);
  return frame->out.code;
}
