/* health.c: system.health: looking (the first half) and telling (the second). */
#include "state/health.h"

#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/names.h"
#include "state/audit.h"
#include "state/call.h"
#include "state/moment.h"
#include "state/run.h"
#include "state/stores.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <perdure/backend.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#define SAMPLE_KEYS 200
#define FREE_BYTES_LOW ((uint64_t)256 << 20)
#define FREE_BYTES_NONE ((uint64_t)16 << 20)
#define FREE_FILES_LOW 16
#define QUOTA_PERCENT_HIGH 90

const char *pd_health_status_name(pd_health_status status)
{
  static const char *const names[] = {"ok", "degraded", "failing"};
  return (unsigned)status < COUNT_OF(names) ? names[status] : "failing";
}

pd_health_status pd_health_worst(const pd_health *health)
{
  pd_health_status worst = PD_HEALTH_OK;
  for (size_t i = 0; i < health->reason_count; i++)
    if (health->reasons[i].status > worst) worst = health->reasons[i].status;
  return worst;
}

/* ---- looking ---- */

__attribute__((format(printf, 5, 6))) static pd_code reason(pd_health *h, pd_health_status status, const char *store, pd_error *err,
                                                            const char *fmt, ...)
{
  TRY(pd_array_grow(&h->reasons, h->reason_count, &h->reason_capacity, sizeof h->reasons[0], "a look at the system", err));
  pd_health_reason *r = &h->reasons[h->reason_count++];
  *r = (pd_health_reason){.status = status};
  snprintf(r->store, sizeof r->store, "%s", store);
  va_list args;
  va_start(args, fmt);
  vsnprintf(r->what, sizeof r->what, fmt, args);
  va_end(args);
  return PD_OK;
}

/* …with the message of what failed. */
static pd_code reason_why(pd_health *h, const char *why)
{
  pd_health_reason *r = &h->reasons[h->reason_count - 1];
  snprintf(r->why, sizeof r->why, "%.399s", why);
  return PD_OK;
}

static pd_code look_at_disk(pd_home *home, pd_health *h, pd_error *err)
{
  struct statvfs fs;
  if (!home->folder) return PD_OK;
  if (statvfs(home->folder, &fs) != 0) {
    const char *why = strerror(errno);
    TRY(reason(h, PD_HEALTH_FAILING, "", err, "the home's folder cannot be looked at"));
    return reason_why(h, why);
  }
  h->has_disk = true;
  h->disk_total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
  h->disk_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
  h->disk_free_files = fs.f_favail;
  unsigned long long mib = h->disk_free_bytes >> 20;
  if (h->disk_free_bytes < FREE_BYTES_NONE || (fs.f_files && fs.f_favail < FREE_FILES_LOW))
    return reason(h, PD_HEALTH_FAILING, "", err, "the disk is full: %llu MiB and %llu files are left", mib,
                  (unsigned long long)h->disk_free_files);
  if (h->disk_free_bytes < FREE_BYTES_LOW)
    return reason(h, PD_HEALTH_DEGRADED, "", err, "there is little space left on the disk: %llu MiB", mib);
  return PD_OK;
}

/* Some keys of a ref with their values, from the root of its tree down. An erased value is no damage. */
static pd_code sample_ref(pd_store *store, const char *ref, pd_error *err)
{
  pd_iter *iter;
  pd_entry entry;
  pd_bytes value;
  TRY(pd_iter_open(store, ref, NULL, &iter, err));
  pd_code code = PD_OK;
  for (int i = 0; !code && i < SAMPLE_KEYS; i++) code = pd_iter_next(iter, &entry, &value, err);
  pd_iter_close(iter);
  return code == PD_NOT_FOUND || code == PD_ERASED ? PD_OK : code;
}

static pd_code sample_refs(pd_store *store, pd_error *why)
{
  CLEANUP(pd_names_done) pd_names list = {0};
  TRY(pd_ref_list(store, pd_names_take_ref, &list, why));
  for (size_t i = 0; i < list.count; i++) {
    pd_code code = sample_ref(store, list.items[i], why);
    if (code && code != PD_NOT_FOUND) return code; /* a ref may have been deleted meanwhile */
  }
  return PD_OK;
}

static uint64_t quota_of(const pd_home *home, const char *name)
{
  if (strcmp(name, PD_STORE_SYSTEM) == 0) return 0;
  return strcmp(name, PD_STORE_SHARED) == 0 ? home->config.shared_quota_bytes : home->config.persistent_quota_bytes;
}

static pd_code look_at_store(pd_home *home, pd_lease *lease, pd_health *h, pd_error *err)
{
  TRY(pd_array_grow(&h->stores, h->store_count, &h->store_capacity, sizeof h->stores[0], "a look at the system", err));
  pd_store_health *s = &h->stores[h->store_count++];
  *s = (pd_store_health){.quota_bytes = quota_of(home, lease->name)};
  snprintf(s->name, sizeof s->name, "%s", lease->name);
  pd_error why = lease->why;
  pd_code code = lease->store ? pd_store_stats(lease->store, &s->stats, &why) : why.code;
  if (code == PD_OK) code = sample_refs(lease->store, &why);
  if (code == PD_OK) code = pd_ref_bytes(lease->store, "main", &s->used_bytes, &why);
  s->is_sound = code == PD_OK;
  if (code == PD_NO_MEMORY) return pd_error_memory(err, "a look at the system");
  if (code) {
    TRY(reason(h, PD_HEALTH_FAILING, s->name, err, "the store '%s' cannot be read", s->name));
    return reason_why(h, why.message);
  }
  if (pd_store_writable(lease->store, &why) == PD_STORAGE)
    return reason(h, PD_HEALTH_FAILING, s->name, err, "the store '%s' takes no writes: %.340s", s->name, why.message);
  if (s->quota_bytes && s->used_bytes >= s->quota_bytes / 100 * QUOTA_PERCENT_HIGH)
    return reason(h, PD_HEALTH_DEGRADED, s->name, err, "the store '%s' uses %llu of its %llu bytes", s->name,
                  (unsigned long long)s->used_bytes, (unsigned long long)s->quota_bytes);
  return PD_OK;
}

static pd_code look_at_audit(pd_home *home, pd_health *h, pd_error *err)
{
  pd_audit_status is;
  pd_audit_status_get(home, &is);
  h->audit_waiting = is.waiting;
  h->audit_lost = is.lost;
  if (is.is_failing)
    TRY(reason(h, PD_HEALTH_DEGRADED, PD_STORE_SYSTEM, err, "the audit cannot be written, %llu lines wait: %s",
               (unsigned long long)is.waiting, is.message));
  if (is.lost)
    return reason(h, PD_HEALTH_FAILING, PD_STORE_SYSTEM, err, "%llu lines of the audit were lost since the home was opened",
                  (unsigned long long)is.lost);
  return PD_OK;
}

/* A vault that cannot be read means that no backup can be made or opened. */
static pd_code look_at_vault(pd_home *home, pd_health *h, pd_error *err)
{
  pd_vault_state is;
  pd_error why;
  pd_code code = pd_vault_status(home, &is, &why);
  if (code == PD_NO_MEMORY) return pd_error_memory(err, "a look at the vault");
  if (code) {
    TRY(reason(h, PD_HEALTH_DEGRADED, "", err, "the vault cannot be read"));
    return reason_why(h, why.message);
  }
  h->has_vault = is.exists;
  h->is_vault_unlocked = is.is_unlocked;
  return PD_OK;
}

/* Rules that stay in force because the file cannot be trusted are not what the operator thinks. */
static pd_code look_at_policy(pd_home *home, pd_health *h, pd_error *err)
{
  char problem[PD_ERROR_MESSAGE_MAX];
  pd_policy_look(home, problem);
  if (!*problem) return PD_OK;
  return reason(h, PD_HEALTH_DEGRADED, "", err, "the policy was not taken, the rules from before stay in force: %.300s", problem);
}

pd_code pd_health_look(pd_home *home, pd_health *out, pd_error *err)
{
  CLEANUP(pd_leases_done) pd_leases leases = {0};
  *out = (pd_health){.time_ms = pd_home_now(home)};
  TRY(look_at_disk(home, out, err));
  TRY(look_at_audit(home, out, err));
  TRY(look_at_vault(home, out, err));
  TRY(look_at_policy(home, out, err));
  TRY(pd_leases_list(home, &leases, err));
  for (size_t i = 0; i < leases.count; i++) {
    pd_lease_open(home, &leases.items[i], true);
    TRY(look_at_store(home, &leases.items[i], out, err));
    pd_lease_close(&leases.items[i]);
  }
  return PD_OK;
}

void pd_health_done(pd_health *health)
{
  free(health->stores);
  free(health->reasons);
  *health = (pd_health){0};
}

/* ---- telling ---- */

/* Its own and what is everybody's. */
static bool concerns(const char *agent, const char *store)
{
  return !agent || !*store || strcmp(store, agent) == 0 || strcmp(store, PD_STORE_SHARED) == 0 || strcmp(store, PD_STORE_SYSTEM) == 0;
}

static void write_reason(pd_json_writer *w, const pd_health_reason *r, bool is_operator)
{
  char text[sizeof r->what + sizeof r->why + 2];
  snprintf(text, sizeof text, "%s%s%s", r->what, is_operator && *r->why ? ": " : "", is_operator ? r->why : "");
  pd_json_text(w, pd_text(text));
}

void pd_health_write_status(pd_json_writer *w, const pd_health *health, const char *agent)
{
  uint64_t of_others = 0;
  pd_json_put_text(w, "status", pd_health_status_name(pd_health_worst(health)));
  pd_json_key(w, "reasons");
  pd_json_open(w, '[');
  for (size_t i = 0; i < health->reason_count; i++) {
    if (concerns(agent, health->reasons[i].store))
      write_reason(w, &health->reasons[i], !agent);
    else
      of_others++;
  }
  if (of_others) pd_json_text(w, pd_text("something is wrong with the store of another agent; the operator sees what"));
  pd_json_close(w, ']');
}

static void write_disk(pd_json_writer *w, const pd_health *h)
{
  pd_json_key(w, "disk");
  if (!h->has_disk) {
    pd_json_null(w);
    return;
  }
  pd_json_open(w, '{');
  pd_json_put_number(w, "total_bytes", h->disk_total_bytes);
  pd_json_put_number(w, "free_bytes", h->disk_free_bytes);
  pd_json_put_number(w, "free_files", h->disk_free_files);
  pd_json_close(w, '}');
}

static void write_store(pd_json_writer *w, const pd_store_health *s)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", s->name);
  pd_json_put_text(w, "kind", pd_store_kind(s->name));
  pd_json_put_text(w, "integrity", s->is_sound ? "ok" : "damaged");
  pd_json_put_number(w, "keys", s->stats.keys);
  pd_json_put_number(w, "records", s->stats.records);
  pd_json_put_number(w, "disk_bytes", s->stats.disk_bytes);
  pd_json_put_number(w, "used_bytes", s->used_bytes);
  pd_json_key(w, "quota_bytes");
  if (s->quota_bytes)
    pd_json_number(w, s->quota_bytes);
  else
    pd_json_null(w);
  if (s->quota_bytes) pd_json_put_number(w, "used_percent", s->used_bytes / (s->quota_bytes / 100 + 1));
  pd_json_close(w, '}');
}

static void write_totals(pd_json_writer *w, const pd_health *h)
{
  uint64_t agents = 0, damaged = 0, keys = 0, used = 0, disk = 0;
  for (size_t i = 0; i < h->store_count; i++) {
    const pd_store_health *s = &h->stores[i];
    agents += strcmp(pd_store_kind(s->name), "agent") == 0;
    damaged += !s->is_sound;
    keys += s->stats.keys;
    used += s->used_bytes;
    disk += s->stats.disk_bytes;
  }
  pd_json_key(w, "totals");
  pd_json_open(w, '{');
  pd_json_put_number(w, "stores", h->store_count);
  pd_json_put_number(w, "agents", agents);
  pd_json_put_number(w, "damaged", damaged);
  pd_json_put_number(w, "keys", keys);
  pd_json_put_number(w, "used_bytes", used);
  pd_json_put_number(w, "disk_bytes", disk);
  pd_json_close(w, '}');
}

static void write_versions(pd_json_writer *w, const pd_home *home, const pd_health *h)
{
  size_t size = strcspn(home->uri, ":");
  bool is_durable = h->store_count > 0;
  for (size_t i = 0; i < h->store_count; i++) is_durable &= h->stores[i].stats.is_durable || !h->stores[i].is_sound;
  pd_json_key(w, "backends");
  pd_json_open(w, '[');
  pd_json_open(w, '{');
  pd_json_put_bytes(w, "name", (pd_bytes){home->uri, size});
  pd_json_put_bool(w, "is_durable", is_durable);
  pd_json_close(w, '}');
  pd_json_close(w, ']');
  pd_json_key(w, "versions");
  pd_json_open(w, '{');
  pd_json_put_text(w, "perdure", pd_version());
  pd_json_put_text(w, "sqlite", pd_backend_sqlite_version());
  pd_json_put_text(w, "openssl", OpenSSL_version(OPENSSL_VERSION_STRING));
  pd_json_close(w, '}');
}

static void write_audit(pd_json_writer *w, const pd_health *h)
{
  pd_json_key(w, "audit");
  pd_json_open(w, '{');
  pd_json_put_number(w, "waiting", h->audit_waiting);
  pd_json_put_number(w, "lost", h->audit_lost);
  pd_json_close(w, '}');
}

static void write_vault(pd_json_writer *w, const pd_health *h)
{
  pd_json_key(w, "vault");
  pd_json_open(w, '{');
  pd_json_put_bool(w, "exists", h->has_vault);
  pd_json_put_bool(w, "unlocked", h->is_vault_unlocked);
  pd_json_close(w, '}');
}

void pd_health_write(pd_json_writer *w, pd_home *home, const pd_health *health, const char *agent)
{
  pd_health_write_status(w, health, agent);
  pd_json_put_time(w, "checked_at", health->time_ms);
  write_disk(w, health);
  write_totals(w, health);
  pd_json_key(w, "stores");
  pd_json_open(w, '[');
  for (size_t i = 0; i < health->store_count; i++)
    if (concerns(agent, health->stores[i].name)) write_store(w, &health->stores[i]);
  pd_json_close(w, ']');
  write_audit(w, health);
  write_vault(w, health);
  write_versions(w, home, health);
}

pd_code pd_cap_system_health(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_health_done) pd_health health = {0};
  TRY(pd_health_look(frame->home, &health, err));
  pd_health_write(&frame->out, frame->home, &health, frame->ctx->is_operator ? NULL : frame->agent);
  return PD_OK;
}
