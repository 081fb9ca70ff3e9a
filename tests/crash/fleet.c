/* fleet.c: see fleet.h. */
#include "crash/fleet.h"

#include "base/clock.h"
#include "support/temp_folder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FAILURES_PRINTED_MAX 20
#define LOOK_MS 2

__attribute__((format(printf, 2, 3))) static void failed(fleet *f, const char *fmt, ...)
{
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (atomic_fetch_add(&f->failures, 1) < FAILURES_PRINTED_MAX) printf("# %s\n", text);
}

/* ---- lives of the server ---- */

/* Wait for a server whose life is younger than `life`. 0: there will be none. */
static uint64_t next_life(fleet *f, uint64_t life, const bool *is_over)
{
  pthread_mutex_lock(&f->lock);
  while (!*is_over && (!f->is_up || f->life <= life)) pthread_cond_wait(&f->changed, &f->lock);
  uint64_t next = f->is_up && f->life > life ? f->life : 0;
  pthread_mutex_unlock(&f->lock);
  return next;
}

static bool is_over(fleet *f, const bool *flag)
{
  pthread_mutex_lock(&f->lock);
  bool is = *flag;
  pthread_mutex_unlock(&f->lock);
  return is;
}

static void set_flag(fleet *f, bool *flag, bool value)
{
  pthread_mutex_lock(&f->lock);
  *flag = value;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
}

void fleet_up(fleet *f)
{
  pthread_mutex_lock(&f->lock);
  f->life++;
  f->is_up = true;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
}

void fleet_down(fleet *f)
{
  set_flag(f, &f->is_up, false);
}

/* ---- writers ---- */

/* A call over the writer's connection. False: the server is gone. */
static bool call(const fleet_writer *w, int fd, const char *name, const char *input, reply *out)
{
  char path[64];
  snprintf(path, sizeof path, "/v1/call/state.%s.%s", w->is_shared ? "shared" : "persistent", name);
  *out = ask_on(fd, "POST", path, "", input);
  if (out->status) return true;
  reply_done(out);
  return false;
}

static uint64_t member(const char *json, const char *name)
{
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\":", name);
  const char *at = json ? strstr(json, quoted) : NULL;
  return at ? strtoull(at + strlen(quoted), NULL, 10) : 0;
}

/* F1. False: the server is gone again. */
static bool check_key(fleet_writer *w, int fd)
{
  char input[64];
  reply r;
  snprintf(input, sizeof input, "{\"key\":\"k.%02u\"}", w->index);
  if (!call(w, fd, "get", input, &r)) return false;
  bool is_found = strstr(r.body, "\"found\":true") != NULL || (w->is_shared && r.status == 200 && member(r.body, "version"));
  uint64_t value = is_found ? member(r.body, "value") : 0, version = is_found ? member(r.body, "version") : 0;
  bool is_right = value == version && (value == w->number || (w->is_on_its_way && value == w->number + 1));
  if (!is_right)
    failed(w->fleet, "k.%02u: %llu was acknowledged%s, but the answer is %d %s", w->index, (unsigned long long)w->number,
           w->is_on_its_way ? " and the next was sent" : "", r.status, r.body);
  w->number = value;
  w->is_on_its_way = false;
  reply_done(&r);
  return true;
}

/* False: nothing was heard. */
static bool write_next(fleet_writer *w, int fd)
{
  char input[128], last[48] = "";
  reply r;
  uint64_t number = w->number + 1;
  if (w->is_shared) snprintf(last, sizeof last, ",\"expected_version\":%llu", (unsigned long long)w->number);
  snprintf(input, sizeof input, "{\"key\":\"k.%02u\",\"value\":%llu%s}", w->index, (unsigned long long)number, last);
  w->is_on_its_way = true;
  if (!call(w, fd, "set", input, &r)) return false;
  w->is_on_its_way = false;
  if (r.status == 200 && member(r.body, "version") == number)
    w->number = number, atomic_fetch_add(&w->fleet->acknowledged, 1);
  else
    failed(w->fleet, "k.%02u: setting %llu was answered %d %s", w->index, (unsigned long long)number, r.status, r.body);
  bool is_open = r.status == 200 && !r.is_closed;
  reply_done(&r);
  return is_open;
}

static void *run_writer(void *ctx)
{
  fleet_writer *w = ctx;
  fleet *f = w->fleet;
  for (uint64_t life = 0; (life = next_life(f, life, &f->is_over));) {
    int fd = served_connect(f->server);
    bool is_there = fd >= 0 && check_key(w, fd);
    while (is_there && !is_over(f, &f->is_over)) is_there = write_next(w, fd);
    if (fd >= 0) close(fd);
  }
  return NULL;
}

/* ---- watchers ---- */

typedef struct sse {
  char id[64], event[16], data[2048];
} sse;

static void take_event(fleet_watcher *w, const sse *e)
{
  const char *key = strstr(e->data, "\"key\":\"k.");
  uint64_t version = member(e->data, "version");
  if (strcmp(e->event, "hello") == 0) return;
  w->is_cut = strcmp(e->event, "cut") == 0;
  bool is_birth = strcmp(e->event, "move") == 0 && w->birth_count++ == 0; /* of main: it comes first, and once */
  if (w->is_cut || is_birth) return;
  if (strcmp(e->event, "put") != 0 || !key) {
    failed(w->fleet, "%s watcher: '%s' %s", w->store, e->event, e->data);
    return;
  }
  unsigned index = (unsigned)strtoul(key + strlen("\"key\":\"k."), NULL, 10);
  if (index >= FLEET_WRITERS) return;
  uint64_t seen = atomic_load(&w->versions[index]);
  if (version != seen + 1)
    failed(w->fleet, "%s watcher: version %llu of k.%02u came after %llu: %s", w->store, (unsigned long long)version, index,
           (unsigned long long)seen, version <= seen ? "twice" : "some are lost");
  atomic_store(&w->versions[index], version);
}

static void take_line(fleet_watcher *w, sse *e, char *line)
{
  line[strcspn(line, "\r\n")] = 0;
  if (strncmp(line, "id: ", 4) == 0) snprintf(e->id, sizeof e->id, "%s", line + 4);
  if (strncmp(line, "event: ", 7) == 0) snprintf(e->event, sizeof e->event, "%s", line + 7);
  if (strncmp(line, "data: ", 6) == 0) snprintf(e->data, sizeof e->data, "%s", line + 6);
  if (*line) return;
  if (*e->event) take_event(w, e);
  if (*e->id) snprintf(w->last_id, sizeof w->last_id, "%s", e->id); /* what has no empty line at its end did not happen */
  *e = (sse){.id = ""};
}

/* Until the stream ends. */
static void follow(fleet_watcher *w, int fd)
{
  char text[4096], *line = NULL;
  size_t capacity = 0;
  sse event = {.id = ""};
  int head_lines = 0;
  snprintf(text, sizeof text, "GET /v1/watch?store=%s&prefix=%s%s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n", w->store, w->prefix,
           *w->last_id ? "" : "&from=start", *w->last_id ? "Last-Event-ID: " : "", w->last_id, *w->last_id ? "\r\n" : "");
  FILE *in = send_bytes(fd, text, strlen(text)) ? fdopen(dup(fd), "r") : NULL;
  w->resumes += *w->last_id != 0;
  bool is_body = false;
  for (ssize_t size; in && (size = getline(&line, &capacity, in)) > 0 && line[size - 1] == '\n';) {
    if (head_lines++ == 0 && !strstr(line, " 200 ")) {
      failed(w->fleet, "%s watcher from '%s': %s", w->store, w->last_id, line);
      break;
    }
    if (is_body) take_line(w, &event, line);
    is_body = is_body || strcmp(line, "\r\n") == 0;
  }
  free(line);
  if (in) fclose(in);
}

static void *run_watcher(void *ctx)
{
  fleet_watcher *w = ctx;
  fleet *f = w->fleet;
  for (uint64_t life = 0; (life = next_life(f, life, &f->is_all_over));) {
    int fd = served_connect(f->server);
    if (fd < 0) continue;
    w->is_cut = false;
    follow(w, fd);
    close(fd);
    if (w->is_cut) life--; /* too slow, or the server stops: to the same one again */
  }
  return NULL;
}

/* ---- all of them ---- */

void fleet_start(fleet *f)
{
  static const char *const watched[FLEET_WATCHERS][2] = {{"shared", "k."}, {"main", "k."}, {"shared", "k.0"}, {"main", "k.1"}};
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->changed, NULL);
  for (unsigned i = 0; i < FLEET_WRITERS; i++) {
    f->writers[i] = (fleet_writer){.fleet = f, .index = i, .is_shared = i % 2 == 0};
    if (pthread_create(&f->writers[i].thread, NULL, run_writer, &f->writers[i])) abort();
  }
  for (unsigned i = 0; i < FLEET_WATCHERS; i++) {
    f->watchers[i].fleet = f;
    f->watchers[i].store = watched[i][0], f->watchers[i].prefix = watched[i][1];
    if (pthread_create(&f->watchers[i].thread, NULL, run_watcher, &f->watchers[i])) abort();
  }
}

/* Has it seen all there is? */
static bool has_seen_all(const fleet *f, const fleet_watcher *w, bool is_told)
{
  bool has_all = true;
  for (unsigned i = 0; i < FLEET_WRITERS; i++) {
    char key[16];
    uint64_t seen = atomic_load(&w->versions[i]);
    snprintf(key, sizeof key, "k.%02u", i);
    bool is_its = f->writers[i].is_shared == (strcmp(w->store, "shared") == 0) && strncmp(key, w->prefix, strlen(w->prefix)) == 0;
    uint64_t wanted = is_its ? f->writers[i].number : 0;
    if (seen == wanted) continue;
    has_all = false;
    if (is_told)
      failed((fleet *)(uintptr_t)f, "%s watcher of %s: saw version %llu of %s, and %llu are there", w->store, w->prefix,
             (unsigned long long)seen, key, (unsigned long long)wanted);
  }
  return has_all;
}

void fleet_end(fleet *f, int64_t timeout_ms)
{
  set_flag(f, &f->is_over, true);
  for (unsigned i = 0; i < FLEET_WRITERS; i++) pthread_join(f->writers[i].thread, NULL);
  int64_t end_ms = pd_clock_monotonic_ms() + timeout_ms;
  for (unsigned i = 0; i < FLEET_WATCHERS; i++) {
    while (!has_seen_all(f, &f->watchers[i], false) && pd_clock_monotonic_ms() < end_ms)
      nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    (void)has_seen_all(f, &f->watchers[i], true);
  }
  set_flag(f, &f->is_all_over, true); /* they end when the server does */
}
