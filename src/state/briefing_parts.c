/* briefing_parts.c: the sections of a briefing that come from the system store: health, alerts, approvals, messages, processes. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/alert.h"
#include "state/briefing.h"
#include "state/health.h"
#include "state/moment.h"
#include "state/pending.h"
#include "state/process.h"
#include "state/queue.h"
#include "state/stores.h"

#include <stdio.h>

/* A string member's text in a sentence; nothing else. */
static pd_code add_text(pd_buf *out, pd_json value, pd_error *err)
{
  return value.kind == PD_JSON_STRING ? pd_json_decode(value, out, err) : PD_OK;
}

/* ---- health ---- */

pd_code pd_brief_health(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(pd_health_done) pd_health health = {0};
  TRY(pd_health_look(b->home, &health, err));
  pd_health_status status = pd_health_worst(&health);
  pd_json_writer w = {.out = &out->brief, .err = err};
  pd_json_open(&w, '{');
  pd_health_write_status(&w, &health, b->agent);
  pd_json_close(&w, '}');
  TRY(w.code);
  if (status == PD_HEALTH_OK) return PD_OK;
  TRY(pd_buf_printf(&out->sentence, err, "The system is %s", pd_health_status_name(status)));
  for (size_t i = 0; i < health.reason_count; i++) {
    const pd_health_reason *r = &health.reasons[i];
    if (*r->store && strcmp(r->store, b->agent) != 0 && strcmp(pd_store_kind(r->store), "agent") == 0) continue;
    return pd_buf_printf(&out->sentence, err, ": %s", r->what);
  }
  return PD_OK;
}

/* ---- alerts ---- */

static pd_code alert_sentence(const pd_journal_list *list, const pd_alert_totals *totals, pd_buf *out, pd_error *err)
{
  pd_alert_severity worst = PD_ALERT_INFO;
  if (!totals->all) return PD_OK;
  for (pd_alert_severity s = PD_ALERT_INFO; s < PD_ALERT_COUNT; s++)
    if (totals->by_severity[s]) worst = s;
  TRY(pd_brief_count(out, totals->all, "alert", "alerts", err));
  if (totals->all == totals->by_severity[worst])
    TRY(pd_buf_printf(out, err, " of severity %s", pd_alert_severity_name(worst)));
  else
    TRY(pd_buf_printf(out, err, ", %llu of them %s", (unsigned long long)totals->by_severity[worst], pd_alert_severity_name(worst)));
  for (size_t i = 0; i < list->count; i++) {
    pd_json json;
    TRY(pd_json_parse((pd_bytes){list->items[i].text, list->items[i].size}, &json, err));
    if (pd_alert_severity_of(json) != worst) continue;
    TRY(pd_buf_printf(out, err, " (\""));
    TRY(add_text(out, pd_json_member(json, "title"), err));
    return pd_buf_printf(out, err, "\")");
  }
  return PD_OK;
}

static void alert_counts(pd_json_writer *w, const pd_alert_totals *totals)
{
  pd_json_put_number(w, "count", totals->all);
  pd_json_put_number(w, "unacknowledged", totals->open);
  pd_json_key(w, "by_severity");
  pd_json_open(w, '{');
  pd_alert_write_totals(w, totals);
  pd_json_close(w, '}');
}

pd_code pd_brief_alerts(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(pd_journal_done) pd_journal_list list = {0};
  const char *const owners[] = {b->agent, PD_JOURNAL_ALL, NULL};
  pd_alert_query query = {.owners = owners, .since_ms = b->since_ms, .limit = PD_BRIEF_LIST_MAX};
  pd_alert_totals totals;
  TRY(pd_alert_read(b->home, &query, &list, &totals, err));
  pd_json_writer w = {.out = &out->brief, .err = err};
  pd_json_open(&w, '{');
  alert_counts(&w, &totals);
  pd_json_close(&w, '}');
  if (b->is_detailed && list.count) {
    w = (pd_json_writer){.out = &out->full, .err = err, .code = w.code};
    pd_json_open(&w, '{');
    alert_counts(&w, &totals);
    pd_json_key(&w, "alerts");
    pd_json_open(&w, '[');
    for (size_t i = 0; i < list.count; i++) pd_alert_write(&w, &list.items[i]);
    pd_json_close(&w, ']');
    pd_json_close(&w, '}');
  }
  TRY(w.code);
  return alert_sentence(&list, &totals, &out->sentence, err);
}

/* ---- approvals ---- */

typedef struct approvals {
  pd_json_writer items; /* an array is open */
  pd_buf text;
  uint64_t count, approved, denied, expired;
  pd_buf named; /* capabilities, for the sentence */
  pd_error *err;
  pd_code code;
} approvals;

static void approvals_done(approvals *a)
{
  pd_buf_done(&a->text);
  pd_buf_done(&a->named);
}

static void take_approval(void *ctx, const pd_pending *item)
{
  approvals *a = ctx;
  if (a->count < PD_BRIEF_NAMED_MAX && a->code == PD_OK) {
    if (a->named.size) a->code = pd_buf_append(&a->named, ", ", 2, a->err);
    if (a->code == PD_OK) a->code = add_text(&a->named, item->capability, a->err);
  }
  if (a->count < PD_BRIEF_LIST_MAX) pd_pending_write(&a->items, item);
  a->count++;
  a->approved += pd_json_is(item->status, "approved");
  a->denied += pd_json_is(item->status, "denied");
  a->expired += pd_json_is(item->status, "expired");
}

static void begin(approvals *a, pd_error *err)
{
  a->err = err;
  a->items = (pd_json_writer){.out = &a->text, .err = err};
  pd_json_open(&a->items, '[');
}

/* The counts, and the list in the full form. */
static pd_code write_approvals(const pd_briefing *b, approvals *a, bool is_decided, pd_section *out, pd_error *err)
{
  pd_json_close(&a->items, ']');
  TRY(a->code);
  TRY(a->items.code);
  for (int is_full = 0; is_full <= (b->is_detailed && a->count); is_full++) {
    pd_json_writer w = {.out = is_full ? &out->full : &out->brief, .err = err};
    pd_json_open(&w, '{');
    pd_json_put_number(&w, "count", a->count);
    if (is_decided) {
      pd_json_put_number(&w, "approved", a->approved);
      pd_json_put_number(&w, "denied", a->denied);
      pd_json_put_number(&w, "expired", a->expired);
    }
    if (is_full) pd_json_put_value(&w, "approvals", (pd_json){pd_buf_bytes(&a->text), PD_JSON_ARRAY});
    pd_json_close(&w, '}');
    TRY(w.code);
  }
  return PD_OK;
}

pd_code pd_brief_pending(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(approvals_done) approvals a = {0};
  begin(&a, err);
  TRY(pd_pending_each(b->home, b->agent, b->frame->now_ms, take_approval, &a, err));
  TRY(write_approvals(b, &a, false, out, err));
  if (!a.count) return PD_OK;
  TRY(pd_brief_count(&out->sentence, a.count, "request waits", "requests wait", err));
  return pd_buf_printf(&out->sentence, err, " for the operator's approval (%.*s%s)", (int)a.named.size, (const char *)a.named.data,
                       a.count > PD_BRIEF_NAMED_MAX ? "…" : "");
}

pd_code pd_brief_decisions(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(approvals_done) approvals a = {0};
  begin(&a, err);
  TRY(pd_decided_each(b->home, b->agent, b->since_ms, take_approval, &a, err));
  TRY(write_approvals(b, &a, true, out, err));
  if (!a.count) return PD_OK;
  pd_buf *s = &out->sentence;
  const struct {
    uint64_t count;
    const char *what;
  } kinds[] = {{a.approved, "approved"}, {a.denied, "denied"}, {a.expired, "not decided in time"}};
  TRY(pd_buf_printf(s, err, "Of your requests "));
  size_t told = 0;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if (!kinds[i].count) continue;
    TRY(pd_buf_printf(s, err, "%s%llu %s %s", told++ ? ", " : "", (unsigned long long)kinds[i].count, kinds[i].count == 1 ? "was" : "were",
                      kinds[i].what));
  }
  return PD_OK;
}

/* ---- messages ---- */

pd_code pd_brief_messages(pd_briefing *b, pd_section *out, pd_error *err)
{
  pd_queue_counts counts = {0};
  TRY(pd_queue_count(b->home, b->agent, &counts, err));
  pd_json_writer w = {.out = &out->brief, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "count", counts.unread);
  pd_json_put_number(&w, "in_flight", counts.in_flight);
  pd_json_close(&w, '}');
  TRY(w.code);
  return counts.unread ? pd_brief_count(&out->sentence, counts.unread, "unread message", "unread messages", err) : PD_OK;
}

/* ---- processes ---- */

static pd_code process_sentence(const pd_journal_list *list, pd_buf *out, pd_error *err)
{
  if (!list->total) return PD_OK;
  TRY(pd_brief_count(out, list->total, "process event", "process events", err));
  for (size_t i = 0; i < list->count && i < PD_BRIEF_NAMED_MAX; i++) {
    pd_json json;
    TRY(pd_json_parse((pd_bytes){list->items[i].text, list->items[i].size}, &json, err));
    TRY(pd_buf_append(out, i ? ", " : " (", 2, err));
    TRY(add_text(out, pd_json_member(json, "name"), err));
    TRY(pd_buf_byte(out, ' ', err));
    TRY(add_text(out, pd_json_member(json, "event"), err));
  }
  return pd_buf_printf(out, err, list->total > PD_BRIEF_NAMED_MAX ? ", …)" : ")");
}

pd_code pd_brief_processes(pd_briefing *b, pd_section *out, pd_error *err)
{
  CLEANUP(pd_journal_done) pd_journal_list list = {0};
  const char *const owners[] = {b->agent, PD_JOURNAL_ALL, NULL};
  TRY(pd_process_read(b->home, owners, b->since_ms, PD_BRIEF_LIST_MAX, &list, err));
  for (int is_full = 0; is_full <= (b->is_detailed && list.count); is_full++) {
    pd_json_writer w = {.out = is_full ? &out->full : &out->brief, .err = err};
    pd_json_open(&w, '{');
    pd_json_put_number(&w, "count", list.total);
    if (is_full) {
      pd_json_key(&w, "events");
      pd_json_open(&w, '[');
      for (size_t i = 0; i < list.count; i++) pd_process_write(&w, &list.items[i]);
      pd_json_close(&w, ']');
    }
    pd_json_close(&w, '}');
    TRY(w.code);
  }
  return process_sentence(&list, &out->sentence, err);
}
