/* alert.c: alerts.send, alerts.list, alerts.acknowledge. */
#include "state/alert.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/moment.h"
#include "state/run.h"

#define NOUN "alert"
#define TAG_SIZE_MAX 64
#define DETAILS_SIZE_MAX 16384

const char *pd_alert_severity_name(pd_alert_severity severity)
{
  static const char *const names[] = {"info", "warning", "error", "critical"};
  return (unsigned)severity < COUNT_OF(names) ? names[severity] : "critical";
}

static pd_alert_severity severity_of(pd_bytes name)
{
  for (pd_alert_severity s = PD_ALERT_INFO; s < PD_ALERT_COUNT; s++)
    if (pd_bytes_equal(name, pd_text(pd_alert_severity_name(s)))) return s;
  return PD_ALERT_INFO;
}

pd_alert_severity pd_alert_severity_of(pd_json alert)
{
  pd_json name = pd_json_member(alert, "severity");
  if (name.kind != PD_JSON_STRING) return PD_ALERT_INFO;
  return severity_of((pd_bytes){(const char *)name.raw.data + 1, name.raw.size - 2});
}

bool pd_alert_is_acknowledged(pd_json alert)
{
  return pd_json_member(alert, "acknowledged_ms").kind != PD_JSON_NONE;
}

/* ---- send ---- */

static pd_code check_tags(const pd_frame *frame, pd_error *err)
{
  pd_json tag;
  pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "tags"));
  while (pd_json_walk_next(&walk, NULL, &tag))
    if (tag.kind != PD_JSON_STRING || tag.raw.size < 3 || tag.raw.size > TAG_SIZE_MAX + 2)
      return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'tags' must hold texts of 1 to %d bytes", frame->capability->name,
                            TAG_SIZE_MAX);
  return PD_OK;
}

pd_code pd_cap_alerts_send(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  char id[PD_JOURNAL_ID_SIZE];
  TRY(check_tags(frame, err));
  if (pd_in(frame, "details").raw.size > DETAILS_SIZE_MAX)
    return pd_error_named(err, PD_LIMIT, "LimitExceeded", "%s: field 'details' is %zu bytes long; at most %d", frame->capability->name,
                          pd_in(frame, "details").raw.size, DETAILS_SIZE_MAX);
  pd_json_open(&w, '{');
  static const char *const fields[] = {"severity", "title", "message", "tags", "details"};
  for (size_t i = 0; i < COUNT_OF(fields); i++) pd_json_put_value(&w, fields[i], pd_in(frame, fields[i]));
  if (frame->ctx->session) pd_json_put_text(&w, "session", frame->ctx->session);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_journal_add(frame, NOUN, frame->home->config.alert_keep, frame->home->config.alert_bytes_max, pd_buf_bytes(&text), id, err));
  pd_json_put_text(&frame->out, "alert_id", id);
  pd_out_time(frame, "timestamp", frame->now_ms);
  return PD_OK;
}

/* ---- list ---- */

typedef struct filter {
  const pd_alert_query *query;
  pd_alert_totals totals;
} filter;

static bool fits(void *ctx, pd_json alert)
{
  filter *f = ctx;
  pd_alert_severity severity = pd_alert_severity_of(alert);
  bool is_open = !pd_alert_is_acknowledged(alert);
  if (severity < f->query->severity || (f->query->only_open && !is_open)) return false;
  f->totals.all++;
  f->totals.open += is_open;
  f->totals.by_severity[severity]++;
  return true;
}

pd_code pd_alert_read(pd_home *home, const pd_alert_query *query, pd_journal_list *out, pd_alert_totals *totals, pd_error *err)
{
  filter f = {.query = query};
  pd_journal_query q = {NOUN, query->owners, query->since_ms, query->limit, fits, &f};
  TRY(pd_journal_read(home, &q, out, err));
  if (totals) *totals = f.totals;
  return PD_OK;
}

void pd_alert_write(pd_json_writer *w, const pd_journal_item *item)
{
  pd_json json = {0};
  int64_t acknowledged_ms = 0;
  if (pd_json_parse((pd_bytes){item->text, item->size}, &json, NULL)) return; /* it was parsed when it was read */
  (void)!pd_json_i64(pd_json_member(json, "acknowledged_ms"), &acknowledged_ms);
  pd_json_open(w, '{');
  pd_json_put_text(w, "alert_id", item->id);
  if (strcmp(item->owner, PD_JOURNAL_ALL) != 0) pd_json_put_text(w, "agent", item->owner);
  static const char *const fields[] = {"severity", "title", "message", "tags", "details", "session"};
  for (size_t i = 0; i < COUNT_OF(fields); i++) pd_json_put_value(w, fields[i], pd_json_member(json, fields[i]));
  pd_json_put_time(w, "timestamp", item->time_ms);
  pd_json_put_bool(w, "acknowledged", pd_alert_is_acknowledged(json));
  pd_json_put_time(w, "acknowledged_at", acknowledged_ms);
  pd_json_put_value(w, "acknowledged_note", pd_json_member(json, "acknowledged_note"));
  pd_json_close(w, '}');
}

void pd_alert_write_totals(pd_json_writer *w, const pd_alert_totals *totals)
{
  for (pd_alert_severity s = PD_ALERT_INFO; s < PD_ALERT_COUNT; s++)
    pd_json_put_number(w, pd_alert_severity_name(s), totals->by_severity[s]);
}

pd_code pd_cap_alerts_list(pd_frame *frame, pd_error *err)
{
  const char *room[3];
  int64_t since_ms = -1;
  bool has_since;
  TRY(pd_in_moment(frame, "since", &since_ms, &has_since, err));
  pd_alert_query query = {
    .owners = pd_journal_owners(frame, room),
    .since_ms = has_since ? since_ms : -1,
    .severity = severity_of(pd_in_text(frame, "severity")),
    .only_open = pd_in_bool(frame, "unacknowledged", false),
    .limit = (size_t)pd_in_int(frame, "limit", 100),
  };
  CLEANUP(pd_journal_done) pd_journal_list list = {0};
  pd_alert_totals totals;
  TRY(pd_alert_read(frame->home, &query, &list, &totals, err));
  pd_json_key(&frame->out, "alerts");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < list.count; i++) pd_alert_write(&frame->out, &list.items[i]);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", list.count);
  pd_json_put_number(&frame->out, "total", totals.all);
  pd_json_put_number(&frame->out, "unacknowledged", totals.open);
  return PD_OK;
}

/* ---- acknowledge ---- */

static pd_code with_acknowledgement(const pd_frame *frame, pd_json alert, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(alert);
  pd_json_open(&w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_value(&w, key);
    if (w.code == PD_OK) w.code = pd_buf_byte(out, ':', err);
    w.needs_comma = false;
    pd_json_value(&w, value);
  }
  pd_json_put_number(&w, "acknowledged_ms", (uint64_t)frame->now_ms);
  pd_json_put_value(&w, "acknowledged_note", pd_in(frame, "note"));
  pd_json_close(&w, '}');
  return w.code;
}

typedef struct acknowledgement {
  pd_frame *frame;
  pd_bytes key;
  int64_t before_ms; /* when it was acknowledged before; 0: only now */
} acknowledgement;

static pd_code stage_acknowledgement(void *ctx, pd_edit *edit, pd_error *err)
{
  acknowledgement *a = ctx;
  CLEANUP(pd_buf_done) pd_buf value = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_entry entry;
  pd_json json;
  TRY(pd_edit_get(edit, a->key, &value, &entry, err));
  TRY(pd_json_parse(pd_buf_bytes(&value), &json, err));
  a->before_ms = 0;
  if (pd_json_i64(pd_json_member(json, "acknowledged_ms"), &a->before_ms)) return PD_OK;
  TRY(with_acknowledgement(a->frame, json, &text, err));
  return pd_edit_put(edit, a->key, pd_buf_bytes(&text), entry.version, err);
}

static pd_code acknowledge(acknowledgement *a, pd_store *store, pd_error *err)
{
  pd_note note = {.ref = "main", .author = *a->frame->agent ? a->frame->agent : "operator", .reason = a->frame->capability->name};
  pd_ack ack;
  TRY(pd_update(store, &note, stage_acknowledgement, a, &ack, err));
  if (ack.durability != PD_NOTHING) pd_frame_commit(a->frame, &ack);
  return PD_OK;
}

pd_code pd_cap_alerts_acknowledge(pd_frame *frame, pd_error *err)
{
  pd_bytes id = pd_in_text(frame, "alert_id");
  char key[PD_JOURNAL_ID_SIZE];
  pd_store *store;
  pd_code code = PD_NOT_FOUND;
  TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
  acknowledgement a = {.frame = frame};
  if (pd_journal_key(NOUN, id, key)) {
    a.key = pd_text(key);
    code = acknowledge(&a, store, err);
  }
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "AlertNotFound", "there is no alert '%.*s'", (int)id.size, (const char *)id.data);
  TRY(code);
  pd_json_put_bool(&frame->out, "acknowledged", true);
  pd_json_put_bool(&frame->out, "was_acknowledged", a.before_ms != 0);
  pd_out_time(frame, "acknowledged_at", a.before_ms ? a.before_ms : frame->now_ms);
  return PD_OK;
}
