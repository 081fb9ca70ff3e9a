/*
 * process.c: process.record and process.list: what became of processes, told by agents and supervisors, so that a briefing can tell it
 * later. A journal (journal.h) with the noun "process": {"event","name","pid"?,"exit_code"?,"signal"?,"message"?,
 * "restarts"?,"stderr_tail"?,"token_sha256"?}.
 */
#include "state/process.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/moment.h"
#include "state/run.h"

#define NOUN "process"

static const char *const fields[] = {"event", "name", "pid", "exit_code", "signal", "message", "restarts", "stderr_tail", "token_sha256"};

static bool is_hex(pd_bytes text)
{
  for (size_t i = 0; i < text.size; i++)
    if (!memchr("0123456789abcdef", ((const char *)text.data)[i], 16)) return false;
  return true;
}

pd_code pd_cap_process_record(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  char id[PD_JOURNAL_ID_SIZE];
  pd_bytes token = pd_in_text(frame, "token_sha256");
  if (token.data && !frame->ctx->is_operator)
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "process.record: token_sha256 is the operator's to tell");
  if (token.data && !is_hex(token)) return pd_error_named(err, PD_INVALID, "InvalidInput", "token_sha256: is not 64 hex digits");
  pd_json_open(&w, '{');
  for (size_t i = 0; i < COUNT_OF(fields); i++) pd_json_put_value(&w, fields[i], pd_in(frame, fields[i]));
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_journal_add(frame, NOUN, frame->home->config.process_keep, UINT64_MAX, pd_buf_bytes(&text), id, err));
  pd_json_put_text(&frame->out, "event_id", id);
  pd_out_time(frame, "timestamp", frame->now_ms);
  return PD_OK;
}

pd_code pd_process_read(pd_home *home, const char *const *owners, int64_t since_ms, size_t limit, pd_journal_list *out, pd_error *err)
{
  pd_journal_query q = {.noun = NOUN, .owners = owners, .since_ms = since_ms, .limit = limit};
  return pd_journal_read(home, &q, out, err);
}

void pd_process_write(pd_json_writer *w, const pd_journal_item *item)
{
  pd_json json;
  if (pd_json_parse((pd_bytes){item->text, item->size}, &json, NULL)) return; /* it was parsed when it was read */
  pd_json_open(w, '{');
  pd_json_put_text(w, "event_id", item->id);
  if (strcmp(item->owner, PD_JOURNAL_ALL) != 0) pd_json_put_text(w, "agent", item->owner);
  for (size_t i = 0; i < COUNT_OF(fields); i++) pd_json_put_value(w, fields[i], pd_json_member(json, fields[i]));
  pd_json_put_time(w, "timestamp", item->time_ms);
  pd_json_close(w, '}');
}

pd_code pd_cap_process_list(pd_frame *frame, pd_error *err)
{
  const char *room[3];
  int64_t since_ms = -1;
  bool has_since;
  TRY(pd_in_moment(frame, "since", &since_ms, &has_since, err));
  CLEANUP(pd_journal_done) pd_journal_list list = {0};
  size_t limit = (size_t)pd_in_int(frame, "limit", 100);
  TRY(pd_process_read(frame->home, pd_journal_owners(frame, room), has_since ? since_ms : -1, limit, &list, err));
  pd_json_key(&frame->out, "events");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < list.count; i++) pd_process_write(&frame->out, &list.items[i]);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", list.count);
  pd_json_put_number(&frame->out, "total", list.total);
  return PD_OK;
}
