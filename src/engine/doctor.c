/* doctor.c: everything that could be wrong with a home, and what to do: the folder (doctor_home.c), then each store opened read-only. */
#include "engine/doctor.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/bundle.h"
#include "engine/erase.h"
#include "engine/gc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define SAMPLE_KEYS 200
#define TAIL_RECORDS_HIGH 60000
#define CLOCK_SLACK_MS 60000
#define GARBAGE_BYTES_HIGH ((uint64_t)1 << 20)
#define GARBAGE_LOOK_BYTES_MAX ((uint64_t)256 << 20) /* of more, finding out takes too long for a quick look */
#define LEDGER_ENTRIES_HIGH ((uint64_t)PD_BUNDLE_META_MAX / 2)
#define OVERHEAD_BYTES_HIGH ((uint64_t)16 << 20)

const char *pd_severity_name(pd_severity severity)
{
  static const char *const names[] = {"ok", "note", "warning", "error"};
  return (unsigned)severity < COUNT_OF(names) ? names[severity] : "unknown";
}

void pd_diagnose(pd_doctor_view *v, pd_severity severity, const char *agent, const char *action, const char *fmt, ...)
{
  char what[PD_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  pd_diagnosis d = {severity, agent, what, action};
  if (severity > v->worst) v->worst = severity;
  if (v->visit) v->visit(v->ctx, &d);
}

/* ---- one store ---- */

static bool take_time(void *ctx, const pd_record *record)
{
  *(int64_t *)ctx = record->time_ms;
  return false;
}

static void check_clock(pd_doctor_view *v, pd_store *s)
{
  int64_t newest = 0, now = pd_clock_now_ms(NULL);
  pd_log_query query = {.whole_store = true, .limit = 1};
  if (pd_log(s, &query, take_time, &newest, NULL)) return;
  if (newest > now + CLOCK_SLACK_MS)
    pd_diagnose(v, PD_SEVERITY_WARNING, s->agent, "set the clock; until it has caught up, records keep the time of the newest",
                "the clock went back: the newest record is %lld s in the future", (long long)(newest - now) / 1000);
  if (s->back_seq)
    pd_diagnose(v, PD_SEVERITY_WARNING, s->agent, "name points before it by commit id or #NUMBER rather than by time",
                "a clock was more than a day ahead before record %llu; records right before it are dated wrongly",
                (unsigned long long)s->back_seq);
}

/* Some keys of a ref with their values, from the root of its tree down. */
static pd_code sample_ref(pd_store *s, const char *ref, pd_error *err)
{
  pd_iter *iter;
  pd_entry entry;
  pd_bytes value;
  TRY(pd_iter_open(s, ref, NULL, &iter, err));
  pd_code code = PD_OK;
  for (int i = 0; !code && i < SAMPLE_KEYS; i++) code = pd_iter_next(iter, &entry, &value, err);
  pd_iter_close(iter);
  return code == PD_NOT_FOUND || code == PD_ERASED ? PD_OK : code;
}

static void check_refs(pd_doctor_view *v, pd_store *s)
{
  size_t bad = 0;
  for (size_t i = 0; i < s->slot_count; i++) { /* nobody else uses this handle */
    pd_error why;
    if (s->slots[i]->seen.is_deleted || !sample_ref(s, s->slots[i]->name, &why)) continue;
    bad++;
    pd_diagnose(v, PD_SEVERITY_ERROR, s->agent, "perdure repair; then perdure verify", "ref '%s' cannot be read: %s", s->slots[i]->name,
                why.message);
  }
  if (!bad) pd_diagnose(v, PD_SEVERITY_OK, s->agent, "", "its newest records, last keyframe and a sample of each ref are sound");
}

/* What an import that did not end keeps from gc. */
static void check_imports(pd_doctor_view *v, pd_store *s)
{
  size_t idle = 0, busy = 0;
  int64_t last_ms, newest_ms = 0;
  char time[PD_TIME_TEXT_SIZE];
  for (size_t i = 0; i < s->slot_count; i++) {
    if (s->slots[i]->seen.is_deleted || !pd_ref_is_import(s->slots[i]->name)) continue;
    if (!pd_import_is_idle(s, s->slots[i], &last_ms)) {
      busy++;
      continue;
    }
    idle++;
    if (last_ms > newest_ms) newest_ms = last_ms;
  }
  if (idle)
    pd_diagnose(v, PD_SEVERITY_NOTE, s->agent, "import the bundle again if it is wanted; else the next gc removes what came of it",
                "an import did not end: %zu hidden refs keep its commits, the last of %s", idle, pd_time_text(newest_ms, time));
  if (busy) pd_diagnose(v, PD_SEVERITY_OK, s->agent, "", "an import is at work, or was during the last hour: %zu hidden refs", busy);
}

static void check_sizes(pd_doctor_view *v, pd_store *s)
{
  pd_stats stats;
  if (pd_store_stats(s, &stats, NULL)) return;
  uint64_t payload = stats.log_bytes + stats.bag_bytes;
  if (stats.tail_records > TAIL_RECORDS_HIGH)
    pd_diagnose(v, PD_SEVERITY_WARNING, s->agent, "open it once for writing and close it: a keyframe is then written",
                "an open has to read %llu records since the last keyframe", (unsigned long long)stats.tail_records);
  if (stats.disk_bytes > payload + OVERHEAD_BYTES_HIGH && stats.disk_bytes / 2 > payload)
    pd_diagnose(v, PD_SEVERITY_NOTE, s->agent, "let gc give the space back to the file system",
                "its files are %llu MiB for %llu MiB of content", (unsigned long long)(stats.disk_bytes >> 20),
                (unsigned long long)(payload >> 20));
}

/* Old history: how much of it there is, and whether gc by itself gets on. */
static void check_gc(pd_doctor_view *v, pd_store *s)
{
  pd_gc_info info;
  pd_gc_policy policy;
  pd_stats stats;
  uint64_t garbage;
  if (pd_gc_status(s, &info, NULL) || pd_auto_gc_policy(s, &policy, NULL) || pd_store_stats(s, &stats, NULL)) return;
  if (info.auto_trouble[0])
    pd_diagnose(v, PD_SEVERITY_WARNING, s->agent, "see the message; then: perdure gc --auto", "gc could not run by itself: %s",
                info.auto_trouble);
  if (info.cut > 1)
    pd_diagnose(v, PD_SEVERITY_OK, s->agent, "", "gc retired what was before record %llu, but for %llu commits",
                (unsigned long long)info.cut, (unsigned long long)info.points);
  uint64_t payload = stats.log_bytes + stats.bag_bytes;
  if (payload > GARBAGE_LOOK_BYTES_MAX || pd_gc_would_free(s, &policy, &garbage, NULL)) return;
  bool is_much = garbage >= GARBAGE_BYTES_HIGH && garbage >= payload / 4;
  if (is_much && !info.is_auto)
    pd_diagnose(v, PD_SEVERITY_NOTE, s->agent, "perdure gc --dry-run says what would go; or: perdure settings gc.auto on",
                "%llu %% of its content is old history that gc would retire", (unsigned long long)(garbage * 100 / payload));
}

static void check_ledger(pd_doctor_view *v, pd_store *s)
{
  pd_erase_ledger_size size;
  if (pd_erase_ledger_measure(s, &size, NULL) || !size.entries) return;
  bool is_large = size.entries > LEDGER_ENTRIES_HIGH;
  pd_diagnose(v, is_large ? PD_SEVERITY_WARNING : PD_SEVERITY_OK, s->agent,
              is_large ? "perdure gc removes entries that others make superfluous; a bundle holds no more than 1000000" : "",
              "its ledger of erasures has %llu entries, %llu KiB; %llu are of whole keys", (unsigned long long)size.entries,
              (unsigned long long)(size.bytes + 1023) / 1024, (unsigned long long)size.keys);
}

static bool take_signature(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  (void)name, (void)value, (void)entry;
  *(bool *)ctx = true;
  return false;
}

static void check_signatures(pd_doctor_view *v, pd_store *s)
{
  bool has_any = false;
  pd_sign_key *key = NULL;
  pd_error why;
  if (pd_meta_list(s, "signed", take_signature, &has_any, NULL) || !has_any) return;
  pd_code code = pd_sign_key_open(v->uri, &key, &why);
  pd_sign_key_free(key);
  if (code)
    pd_diagnose(v, PD_SEVERITY_WARNING, s->agent, "put the home's perdure.key back; without it heads can be checked but not signed",
                "it has signed heads, but: %s", why.message);
}

static void check_writes(pd_doctor_view *v, pd_store *s)
{
  pd_error why;
  if (s->ops->health && s->ops->health(s->backend, &why))
    pd_diagnose(v, PD_SEVERITY_ERROR, s->agent, "check the disk; then stop every process that has the store open, and open it again",
                "it takes no writes: %s", why.message);
}

static void check_store(pd_doctor_view *v, const char *agent)
{
  pd_options options = {.is_read_only = true};
  pd_store *s = NULL;
  pd_error why;
  char place[PD_PLACE_SIZE];
  bool is_elsewhere = pd_store_placed(v->uri, agent, place, NULL) == PD_OK;
  if (is_elsewhere)
    pd_diagnose(v, PD_SEVERITY_NOTE, agent, "back it up where it is",
                "its store is in %.300s: backups and restores of this home leave it out", place);
  if (v->folder && !is_elsewhere) pd_doctor_files(v, agent);
  pd_code code = pd_store_open(v->uri, agent, &options, &s, &why);
  if (code) {
    const char *action = code == PD_CORRUPT ? "perdure repair --dry-run says what can be done" : "see the message";
    pd_diagnose(v, PD_SEVERITY_ERROR, agent, action, "it cannot be opened: %s", why.message);
    return;
  }
  check_writes(v, s);
  check_refs(v, s);
  check_imports(v, s);
  check_sizes(v, s);
  check_gc(v, s);
  check_clock(v, s);
  check_ledger(v, s);
  check_signatures(v, s);
  (void)!pd_store_close(s, NULL);
}

/* ---- the home ---- */

static void take_agent(void *ctx, const char *agent)
{
  pd_doctor_view *v = ctx;
  if (pd_array_grow(&v->agents, v->agent_count, &v->agent_capacity, sizeof *v->agents, "a list of agents", NULL))
    v->failed = true;
  else
    strcpy(v->agents[v->agent_count++], agent);
}

static void check_agents(pd_doctor_view *v)
{
  if (!v->agent_count) pd_diagnose(v, PD_SEVERITY_NOTE, "", "make a store with: perdure init", "the home has no store");
  for (size_t i = 0; i < v->agent_count; i++)
    for (size_t k = i + 1; k < v->agent_count; k++)
      if (strcasecmp(v->agents[i], v->agents[k]) == 0)
        pd_diagnose(v, PD_SEVERITY_WARNING, v->agents[i], "rename one: on some file systems they would be one file",
                    "its name differs from '%s' only by case", v->agents[k]);
  for (size_t i = 0; i < v->agent_count; i++) check_store(v, v->agents[i]);
}

/* FACTS: SQLite 3.7.0 to 3.51.2 can corrupt a WAL when a write meets a checkpoint. */
static void check_library(pd_doctor_view *v)
{
  int major = 0, minor = 0, patch = 0;
  const char *version = pd_backend_sqlite_version();
  sscanf(version, "%d.%d.%d", &major, &minor, &patch);
  if (major == 3 && (minor < 51 || (minor == 51 && patch < 3)))
    pd_diagnose(v, PD_SEVERITY_NOTE, "",
                "nothing for perdure: its own lock keeps them apart. Do not write to the files with other programs",
                "SQLite %s has a known race between writes and checkpoints", version);
  else
    pd_diagnose(v, PD_SEVERITY_OK, "", "", "SQLite %s", version);
}

pd_code pd_doctor(const char *uri, void (*visit)(void *ctx, const pd_diagnosis *diagnosis), void *ctx, pd_severity *out_worst,
                  pd_error *err)
{
  const pd_backend_ops *ops;
  const char *rest;
  TRY(pd_backend_find(uri, &ops, &rest, err));
  pd_doctor_view v = {.uri = uri, .visit = visit, .ctx = ctx};
  char *folder = strcmp(ops->scheme, "sqlite") == 0 ? strndup(rest, strcspn(rest, "?")) : NULL;
  v.folder = folder;
  pd_code code = PD_OK;
  if (folder) check_library(&v);
  if (!folder || pd_doctor_folder(&v)) {
    code = pd_home_agents(uri, take_agent, &v, err);
    if (!code && v.failed) code = pd_error_memory(err, "a list of agents");
    if (!code) check_agents(&v);
  }
  if (!code && out_worst) *out_worst = v.worst;
  free(folder);
  free(v.agents);
  return code;
}
