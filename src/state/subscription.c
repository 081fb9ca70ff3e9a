/* subscription.c: subscriptions as they are stored, and whether they live. Invariants W1 to W3 are in subscription.h. */
#include "state/subscription.h"

#include "base/array.h"
#include "base/base.h"
#include "base/close.h"
#include "base/error.h"
#include "base/random.h"
#include "state/session.h"
#include "state/tiers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Agents with subscriptions that belong to sessions of this home. */
typedef struct owner {
  char agent[PD_NAME_SIZE_MAX + 1];
  char session[PD_SESSION_ID_SIZE];
} owner;

struct pd_subscriptions {
  pd_home *home;
  char holder[40], process[96];
  pthread_mutex_t lock;
  owner *owners;
  size_t count, capacity;
};

/* ---- processes ---- */

static size_t read_small(const char *path, char *out, size_t size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, out, size - 1);
  if (fd >= 0) close(fd);
  out[got < 0 ? 0 : got] = 0;
  out[strcspn(out, "\n")] = 0;
  return strlen(out);
}

/* BOOT.PROCESS.START: never the same for two processes; "" if there is no such process. */
static void process_name(long pid, char out[96])
{
  char path[64], stat[1024], boot[64];
  unsigned long long start = 0;
  *out = 0;
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  if (!read_small(path, stat, sizeof stat) || !read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) return;
  const char *at = strrchr(stat, ')'); /* a program's name may hold anything */
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  if (at) start = strtoull(at, NULL, 10);
  if (start) snprintf(out, 96, "%s.%ld.%llu", boot, pid, start);
}

static bool process_runs(const char *name)
{
  char now[96];
  const char *dot = strchr(name, '.');
  if (!dot) return false;
  process_name(strtol(dot + 1, NULL, 10), now);
  return *now && strcmp(now, name) == 0;
}

/* ---- stored form ---- */

void pd_subscription_list_done(pd_subscription_list *list)
{
  free(list->items);
}

static void subscription_key(const char *id, char out[PD_QUEUE_KEY_SIZE])
{
  snprintf(out, PD_QUEUE_KEY_SIZE, "subscription/%s", id);
}

static const pd_bind members[] = {
  {"session", PD_BIND_TEXT, PD_BIND_AT(pd_subscription, session)}, {"prefix", PD_BIND_TEXT, PD_BIND_AT(pd_subscription, prefix)},
  {"cursor", PD_BIND_TEXT, PD_BIND_AT(pd_subscription, cursor)},   {"holder", PD_BIND_TEXT, PD_BIND_AT(pd_subscription, holder)},
  {"process", PD_BIND_TEXT, PD_BIND_AT(pd_subscription, process)},
};

static pd_code parse_subscription(const pd_entry *entry, pd_bytes text, pd_subscription *out, pd_error *err)
{
  static const size_t skip = sizeof "subscription/" - 1;
  char key[PD_QUEUE_KEY_SIZE];
  pd_subscription s = {.updated_ms = entry->updated_ms};
  snprintf(key, sizeof key, "%.*s", (int)entry->key.size, (const char *)entry->key.data);
  snprintf(s.id, sizeof s.id, "%.*s", (int)(entry->key.size - skip), (const char *)entry->key.data + skip);
  TRY(pd_leased_parse(key, text, members, COUNT_OF(members), &s, err));
  *out = s;
  return PD_OK;
}

pd_code pd_subscription_load(pd_queue_tx *tx, pd_subscription_list *out, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_entry entry;
  pd_bytes text;
  pd_code code;
  snprintf(prefix, sizeof prefix, "subscription/%s:", tx->agent);
  TRY(pd_edit_iter(tx->l.edit, &(pd_scan){.prefix = pd_text(prefix)}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &text, err)) == PD_OK) {
    TRY(pd_array_grow(&out->items, out->count, &out->capacity, sizeof out->items[0], "subscriptions", err));
    TRY(parse_subscription(&entry, text, &out->items[out->count], err));
    out->count++;
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_subscription_store(pd_queue_tx *tx, const pd_subscription *s, pd_error *err)
{
  char key[PD_QUEUE_KEY_SIZE];
  subscription_key(s->id, key);
  return pd_leased_put(&tx->l, key, members, COUNT_OF(members), s, err);
}

pd_code pd_subscription_remove(pd_queue_tx *tx, const pd_subscription *s, pd_error *err)
{
  char key[PD_QUEUE_KEY_SIZE];
  subscription_key(s->id, key);
  return pd_edit_delete(tx->l.edit, pd_text(key), PD_ANY_VERSION, err);
}

bool pd_subscription_is_ours(pd_home *home, const pd_subscription *s)
{
  return strcmp(s->holder, home->subscriptions->holder) == 0;
}

void pd_subscription_bind(pd_home *home, const char *session, pd_subscription *s)
{
  snprintf(s->session, sizeof s->session, "%s", session);
  snprintf(s->holder, sizeof s->holder, "%s", home->subscriptions->holder);
  snprintf(s->process, sizeof s->process, "%s", home->subscriptions->process);
}

pd_subscription_state pd_subscription_state_of(pd_home *home, const char *agent, const pd_subscription *s)
{
  if (!*s->holder) return PD_SUBSCRIPTION_SUSPENDED;
  if (pd_subscription_is_ours(home, s)) return pd_session_is_alive(home, agent, s->session) ? PD_SUBSCRIPTION_LIVE : PD_SUBSCRIPTION_ENDED;
  return process_runs(s->process) ? PD_SUBSCRIPTION_LIVE : PD_SUBSCRIPTION_SUSPENDED;
}

pd_code pd_subscriptions_any(pd_home *home, const char *agent, bool *out, pd_error *err)
{
  CLEANUP(pd_queue_place_close) pd_queue_place place = {0};
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_iter *iter = NULL;
  pd_entry entry;
  snprintf(prefix, sizeof prefix, "subscription/%s:", agent);
  pd_scan scan = {.prefix = pd_text(prefix), .keys_only = true};
  TRY(pd_queue_place_open(home, agent, false, &place, err));
  pd_code code = pd_iter_open(place.store, place.ref, &scan, &iter, err);
  if (!code) code = pd_iter_next(iter, &entry, NULL, err);
  pd_iter_close(iter);
  if (code && code != PD_NOT_FOUND) return code;
  *out = code == PD_OK;
  return PD_OK;
}

/* ---- sessions of this home ---- */

pd_code pd_subscriptions_hold(pd_home *home, const char *agent, const char *session, pd_error *err)
{
  pd_subscriptions *subs = home->subscriptions;
  pthread_mutex_lock(&subs->lock);
  size_t i = 0;
  while (i < subs->count && strcmp(subs->owners[i].session, session) != 0) i++;
  pd_code code = PD_OK;
  if (i == subs->count) {
    code = pd_array_grow(&subs->owners, subs->count, &subs->capacity, sizeof subs->owners[0], "subscriptions", err);
    if (code == PD_OK) {
      owner *o = &subs->owners[subs->count++];
      snprintf(o->agent, sizeof o->agent, "%s", agent);
      snprintf(o->session, sizeof o->session, "%s", session);
    }
  }
  pthread_mutex_unlock(&subs->lock);
  return code;
}

/* Take any one (session NULL), or this one, off the list. */
static bool take_owner(pd_subscriptions *subs, const char *session, owner *out)
{
  bool is_found = false;
  pthread_mutex_lock(&subs->lock);
  for (size_t i = subs->count; i-- > 0 && !is_found;) {
    if (session && strcmp(subs->owners[i].session, session) != 0) continue;
    *out = subs->owners[i];
    subs->owners[i] = subs->owners[--subs->count];
    is_found = true;
  }
  pthread_mutex_unlock(&subs->lock);
  return is_found;
}

/* What fails here is made good by the next look at the queue: a session that is not alive ends its subscriptions (W2). */
static void session_ended(void *ctx, const char *agent, const char *session)
{
  pd_subscriptions *subs = ctx;
  owner o;
  if (!take_owner(subs, session, &o)) return;
  if (pd_subscriptions_finish(subs->home, agent, session, NULL)) return;
}

static pd_code stage_suspend(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  CLEANUP(pd_subscription_list_done) pd_subscription_list list = {0};
  bool is_changed = false;
  (void)ctx;
  TRY(pd_subscription_load(tx, &list, err));
  for (size_t i = 0; i < list.count; i++) {
    if (!pd_subscription_is_ours(tx->home, &list.items[i])) continue;
    list.items[i].holder[0] = 0;
    TRY(pd_subscription_store(tx, &list.items[i], err));
    is_changed = true;
  }
  return is_changed ? pd_queue_stage_head(tx, err) : PD_OK;
}

/* ---- the tier ---- */

pd_code pd_subscriptions_new(pd_home *home, pd_subscriptions **out, pd_error *err)
{
  char holder[33];
  TRY(pd_random_hex(holder, sizeof holder, err));
  pd_subscriptions *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->home = home;
  strcpy(made->holder, holder);
  process_name((long)getpid(), made->process);
  pthread_mutex_init(&made->lock, NULL);
  pd_session_on_end(home, session_ended, made);
  *out = made;
  return PD_OK;
}

void pd_subscriptions_close(pd_subscriptions *subs)
{
  owner o;
  if (!subs) return;
  while (take_owner(subs, NULL, &o)) {
    pd_note note = {.author = o.agent, .reason = "home.close"};
    if (pd_queue_update_any(subs->home, o.agent, &note, stage_suspend, NULL, NULL, NULL))
      continue; /* it will be found to be suspended when this process is gone */
  }
}

void pd_subscriptions_free(pd_subscriptions *subs)
{
  if (!subs) return;
  pthread_mutex_destroy(&subs->lock);
  free(subs->owners);
  free(subs);
}
