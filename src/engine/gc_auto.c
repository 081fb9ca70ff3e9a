/*
 * gc_auto.c: gc by itself, when the settings say so.
 *
 * It is due when as many records came since the last one as that left whole, and no fewer than DUE_RECORDS; so its cost is a constant share
 * of what writing costs, and the log stays bounded. A handle that wrote many bytes of values is a reason, too. Commits only compare two
 * numbers; what is due runs on a thread of its own that ends with it. What it did, or why it could not, is the entry gc-auto/last of the
 * hidden ref: {"at_ms":…,"seq":…,"whole":…,"code":…,"message":…}.
 */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DUE_RECORDS 4096
#define DUE_BYTES ((uint64_t)64 << 20)
#define FIRST_LOOK_RECORDS 64 /* a handle that writes less since it was opened, or a setting changed, does not look */
#define RETRY_RECORDS 512
#define NICE 5

/* ---- the settings ---- */

static bool parse_number(pd_bytes value, uint64_t *out)
{
  const char *p = value.data;
  uint64_t n = 0;
  if (!value.size || value.size > 9) return false;
  for (size_t i = 0; i < value.size; i++) {
    if (p[i] < '0' || p[i] > '9') return false;
    n = n * 10 + (uint64_t)(p[i] - '0');
  }
  *out = n;
  return n > 0;
}

/* Names of refs, or beginnings of them with a / at the end, separated by single spaces. */
static pd_code check_refs(pd_bytes value, pd_error *err)
{
  const char *text = value.data, *end = text + value.size;
  while (text && text < end) {
    char name[PD_REF_SIZE_MAX + 1];
    const char *stop = memchr(text, ' ', (size_t)(end - text));
    size_t size = (size_t)((stop ? stop : end) - text);
    size_t shown = size && text[size - 1] == '/' ? size - 1 : size;
    bool is_short = shown <= PD_REF_SIZE_MAX;
    if (is_short) memcpy(name, text, shown);
    name[is_short ? shown : 0] = 0;
    if (pd_ref_check(name, NULL))
      return pd_error_set(err, PD_INVALID, "setting '%s' is names of refs with single spaces between them; '%.*s' is none",
                          PD_SETTING_GC_KEEP_REFS, (int)(size < 40 ? size : 40), text);
    text = stop ? stop + 1 : end;
  }
  return PD_OK;
}

pd_code pd_auto_gc_check(const char *name, pd_bytes value, pd_error *err)
{
  static const char *const numbers[] = {PD_SETTING_GC_KEEP_LAST, PD_SETTING_GC_KEEP_VERSIONS, PD_SETTING_GC_KEEP_DAYS};
  uint64_t number;
  int size = (int)(value.size < 40 ? value.size : 40);
  if (strcmp(name, PD_SETTING_GC_AUTO) == 0) {
    if (pd_bytes_equal(value, pd_text("on")) || pd_bytes_equal(value, pd_text("off"))) return PD_OK;
    return pd_error_set(err, PD_INVALID, "setting '%s' is on or off, not '%.*s'", name, size, (const char *)value.data);
  }
  if (strcmp(name, PD_SETTING_GC_KEEP_REFS) == 0) return check_refs(value, err);
  for (size_t i = 0; i < COUNT_OF(numbers); i++) {
    if (strcmp(name, numbers[i]) != 0) continue;
    if (parse_number(value, &number)) return PD_OK;
    return pd_error_set(err, PD_INVALID, "setting '%s' is a number from 1 to 999999999, not '%.*s'", name, size, (const char *)value.data);
  }
  return pd_error_set(err, PD_INVALID, "there is no setting '%.100s': of gc there are %s, %s, %s, %s and %s", name, PD_SETTING_GC_AUTO,
                      numbers[0], numbers[1], numbers[2], PD_SETTING_GC_KEEP_REFS);
}

static pd_code read_setting(pd_store *s, const char *name, pd_buf *value, bool *out_is_set, pd_error *err)
{
  pd_error why;
  pd_code code = pd_meta_get_locked(s, "setting", name, value, &why);
  *out_is_set = !code;
  if (code && code != PD_NOT_FOUND && err) *err = why;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code read_policy(pd_store *s, bool *out_is_on, pd_gc_policy *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  bool is_set;
  TRY(read_setting(s, PD_SETTING_GC_AUTO, &value, &is_set, err));
  *out_is_on = is_set && pd_bytes_equal(pd_buf_bytes(&value), pd_text("on"));
  struct {
    const char *name;
    uint64_t *out;
  } const rules[] = {{PD_SETTING_GC_KEEP_LAST, &out->keep_last},
                     {PD_SETTING_GC_KEEP_VERSIONS, &out->keep_versions},
                     {PD_SETTING_GC_KEEP_DAYS, &out->keep_days}};
  for (size_t i = 0; i < COUNT_OF(rules); i++) {
    TRY(read_setting(s, rules[i].name, &value, &is_set, err));
    if (is_set && !parse_number(pd_buf_bytes(&value), rules[i].out))
      return pd_error_set(err, PD_INVALID, "setting '%s' is no number", rules[i].name);
  }
  return PD_OK;
}

/* ---- the last time ---- */

typedef struct last_time {
  int64_t at_ms;
  uint64_t seq, whole;
  char code[64], message[PD_ERROR_MESSAGE_MAX];
} last_time;

static const pd_bind members[] = {
  {"at_ms", PD_BIND_MS, PD_BIND_AT(last_time, at_ms)},
  {"seq", PD_BIND_NUMBER, PD_BIND_AT(last_time, seq), .is_optional = true, .is_always = true},
  {"whole", PD_BIND_NUMBER, PD_BIND_AT(last_time, whole), .is_optional = true, .is_always = true},
  {"code", PD_BIND_TEXT, PD_BIND_AT(last_time, code), .is_optional = true},
  {"message", PD_BIND_TEXT, PD_BIND_AT(last_time, message), .is_optional = true},
};

/* All 0 if there was none, or if it cannot be read: then it is due, and will be written anew. */
static void read_last(pd_store *s, last_time *out)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  *out = (last_time){0};
  if (pd_meta_get_locked(s, PD_GC_AUTO_KIND, PD_GC_AUTO_NAME, &value, NULL)) return;
  if (pd_bind_parse(pd_buf_bytes(&value), members, COUNT_OF(members), PD_BIND_LOOSE, out, NULL)) *out = (last_time){0};
}

static pd_code write_last(pd_store *s, const last_time *last, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json_writer w = {.out = &value, .err = err};
  pd_bind_object(&w, members, COUNT_OF(members), last);
  TRY(w.code);
  return pd_meta_put(s, PD_GC_AUTO_KIND, PD_GC_AUTO_NAME, pd_buf_bytes(&value), PD_ANY_VERSION, NULL, NULL, err);
}

/* ---- is it due? ---- */

/* Look again later: when it will be due if nothing else happens. */
static pd_code look(pd_store *s, bool *out_is_on, bool *out_is_due, pd_gc_policy *out, pd_error *err)
{
  pd_auto_gc *a = &s->auto_gc;
  last_time last;
  *out_is_due = false;
  a->next_seq = s->log_seq + RETRY_RECORDS;
  TRY(read_policy(s, out_is_on, out, err));
  if (!*out_is_on) {
    a->next_seq = a->next_bytes = UINT64_MAX; /* until a setting changes */
    return PD_OK;
  }
  read_last(s, &last);
  if (last.seq > s->log_seq) last.seq = 0;
  uint64_t due_seq = last.seq + (last.whole > DUE_RECORDS ? last.whole : DUE_RECORDS);
  *out_is_due = s->log_seq >= due_seq || a->bytes >= a->next_bytes;
  if (!*out_is_due) a->next_seq = due_seq;
  return PD_OK;
}

/* ---- running ---- */

static bool goes_on(void *ctx, uint64_t done, uint64_t total)
{
  const pd_store *s = ctx;
  (void)done;
  (void)total;
  return !__atomic_load_n(&s->auto_gc.is_stopping, __ATOMIC_RELAXED);
}

/* Takes the lock. */
static void settle_accounts(pd_store *s, const pd_gc_report *report, pd_code code, const pd_error *why)
{
  pd_auto_gc *a = &s->auto_gc;
  last_time last;
  pd_store_lock(s);
  read_last(s, &last);
  last.at_ms = s->now_ms(s->now_ctx);
  last.code[0] = last.message[0] = 0;
  if (!code) {
    last.seq = s->retention.epoch;
    last.whole = last.seq > s->retention.state.cut ? last.seq - s->retention.state.cut : 0;
    a->bytes = 0;
    a->next_bytes = report->disk_after > DUE_BYTES ? report->disk_after : DUE_BYTES;
    a->runs++;
    a->error.code = PD_OK;
  } else {
    snprintf(last.code, sizeof last.code, "%s", pd_code_name(code));
    snprintf(last.message, sizeof last.message, "%s", why->message);
    a->error = *why;
    a->bytes /= 2;
  }
  a->next_seq = s->log_seq + RETRY_RECORDS;
  pd_store_unlock(s);
  pd_error unwritten;
  if (!write_last(s, &last, &unwritten)) return;
  pd_store_lock(s);
  if (!code) a->error = unwritten; /* else the handle at least knows the first */
  pd_store_unlock(s);
}

/* With is_running set. Conflicts and a store that closes are nobody's fault: it is tried again later. */
static pd_code run(pd_store *s, pd_gc_policy *policy, pd_gc_report *report, pd_error *err)
{
  pd_error why = {.code = PD_OK};
  policy->progress = goes_on;
  policy->ctx = s;
  pd_code code = pd_gc_quietly(s, policy, report, &why);
  bool is_nothing = code == PD_CONFLICT || (code && !goes_on(s, 0, 0));
  if (!is_nothing) settle_accounts(s, report, code, &why);
  pd_store_lock(s);
  s->auto_gc.is_running = false;
  pd_store_unlock(s);
  if (code && err) *err = why;
  return code;
}

static void *collect(void *ctx)
{
  pd_store *s = ctx;
  pd_gc_report report;
  (void)!setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); /* of this thread, on Linux */
  pd_gc_policy policy = s->auto_gc.policy;
  (void)!run(s, &policy, &report, NULL);
  return NULL;
}

static void start_thread(pd_store *s)
{
  pd_auto_gc *a = &s->auto_gc;
  if (a->has_thread) pthread_join(a->thread, NULL); /* it has ended, or is about to without the lock */
  a->is_running = true;
  sigset_t all, before; /* signals are for the threads of the program */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  a->has_thread = !pthread_create(&a->thread, NULL, collect, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!a->has_thread) a->is_running = false; /* later */
}

void pd_auto_gc_look(pd_store *s)
{
  pd_auto_gc *a = &s->auto_gc;
  pd_error why;
  bool is_on, is_due;
  if (a->is_running || s->importing || s->is_read_only || s->is_closing || s->is_mending || !s->ops->log_redact) return;
  a->policy = (pd_gc_policy){0};
  pd_code code = look(s, &is_on, &is_due, &a->policy, &why);
  if (code) a->error = why;
  if (!code && is_due) start_thread(s);
}

void pd_auto_gc_start(pd_store *s)
{
  s->auto_gc.next_seq = s->is_in_joint ? UINT64_MAX : s->log_seq + FIRST_LOOK_RECORDS; /* what gc takes away an abort cannot bring back */
  s->auto_gc.next_bytes = s->is_in_joint ? UINT64_MAX : s->auto_gc.bytes + DUE_BYTES;
}

void pd_auto_gc_stop(pd_store *s)
{
  __atomic_store_n(&s->auto_gc.is_stopping, 1, __ATOMIC_RELAXED);
  pd_store_lock(s);
  s->auto_gc.next_seq = s->auto_gc.next_bytes = UINT64_MAX;
  bool has_thread = s->auto_gc.has_thread;
  s->auto_gc.has_thread = false;
  pd_store_unlock(s);
  if (has_thread) pthread_join(s->auto_gc.thread, NULL);
}

pd_code pd_gc_auto(pd_store *store, bool *out_did, pd_gc_report *out, pd_error *err)
{
  pd_gc_policy policy = {0};
  pd_gc_report report = {0};
  bool is_on = false, is_due = false;
  if (out_did) *out_did = false;
  if (store->is_read_only || !store->ops->log_redact) return PD_OK;
  pd_store_lock(store);
  pd_code code = pd_refresh(store, err);
  if (!code && !store->auto_gc.is_running && !store->importing) code = look(store, &is_on, &is_due, &policy, err);
  if (!code && is_due) store->auto_gc.is_running = true;
  pd_store_unlock(store);
  if (code || !is_due) return code;
  pd_error why;
  code = run(store, &policy, &report, &why);
  if (code == PD_CONFLICT) return PD_OK; /* somebody else is at it */
  if (code && err) *err = why;
  if (code) return code;
  if (out_did) *out_did = true;
  if (out) *out = report;
  return PD_OK;
}

pd_code pd_auto_gc_policy(pd_store *s, pd_gc_policy *out, pd_error *err)
{
  bool is_on;
  *out = (pd_gc_policy){0};
  pd_store_lock(s);
  pd_code code = pd_refresh_to_read(s, err);
  if (!code) code = read_policy(s, &is_on, out, err);
  pd_store_unlock(s);
  return code;
}

pd_code pd_auto_gc_status(pd_store *s, pd_gc_info *out, pd_error *err)
{
  pd_gc_policy policy = {0};
  last_time last;
  TRY(read_policy(s, &out->is_auto, &policy, err));
  read_last(s, &last);
  out->auto_ms = last.at_ms;
  out->auto_runs = s->auto_gc.runs;
  if (s->auto_gc.error.code)
    snprintf(out->auto_trouble, sizeof out->auto_trouble, "%s", s->auto_gc.error.message);
  else if (last.code[0])
    snprintf(out->auto_trouble, sizeof out->auto_trouble, "%s: %s", last.code, last.message);
  return PD_OK;
}
