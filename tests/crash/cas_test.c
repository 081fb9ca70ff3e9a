/*
 * cas_test.c: compare-and-swap on a few keys of `perdure serve`, over HTTP and through a handle of another process, while the server is
 * killed (SIGKILL) and started again; once more on a disk whose syncs take longer. Every call is written down with its times and what it
 * answered, and the whole is checked for linearizability, refusals and reads included.
 *
 * The model of a key is a register with a version. Each version has one write; a read or a refusal that names version V took place while V
 * was the newest. So the calls of a key fall into blocks, one for each version: its write, then those that saw it. There is an order that
 * explains everything if and only if no call of a block ended before one of an earlier block began, and no call that saw a version ended
 * before its write began. What a call did whose answer was lost is told by the history of the key: its value is there or not.
 */
#include "base/clock.h"
#include "crash/crash.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define KEYS 3
#define PACE 10   /* calls over HTTP for one of the neighbour */
#define CLIENTS 8 /* over HTTP; one more has the store open itself */
#define CALLS_SHORT 3000
#define CALLS_FULL 100000
#define KILLS_SHORT 4
#define KILLS_FULL 40
#define LIFE_MS_MAX 300
#define FAULTS_PRINTED_MAX 10

typedef enum outcome { SWAPPED, REFUSED, READ, LOST } outcome;

typedef struct call {
  int64_t begun_ns, ended_ns; /* INT64_MAX: the answer was lost */
  uint64_t expected, version; /* what was expected; what was made, or seen */
  uint64_t value;             /* written, or read; 0: none */
  outcome outcome;
  unsigned key;
} call;

typedef struct scene scene;

typedef struct client {
  scene *sc;
  pthread_t thread;
  unsigned index;
  uint64_t random;
  uint64_t known[KEYS]; /* the last version heard of */
  bool was_refused;     /* the last call, */
  unsigned key;         /* of this key */
  uint64_t made;
  call *calls;
  size_t count, capacity;
} client;

struct scene {
  served *server;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t life;
  bool is_up;
  atomic_bool is_over;
  atomic_ullong swaps; /* tried over HTTP */
  atomic_uint faults;
  client clients[CLIENTS + 1];
};

static void pause_ms(uint64_t ms)
{
  nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void fault(scene *sc, const char *fmt, ...)
{
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (atomic_fetch_add(&sc->faults, 1) < FAULTS_PRINTED_MAX) printf("# %s\n", text);
}

static uint64_t next_random(client *c, uint64_t below)
{
  c->random ^= c->random << 13;
  c->random ^= c->random >> 7;
  c->random ^= c->random << 17;
  return c->random % below;
}

static void note(client *c, const call *done)
{
  if (c->count == c->capacity) {
    c->capacity = c->capacity ? c->capacity * 2 : 1024;
    c->calls = realloc(c->calls, c->capacity * sizeof *c->calls);
    if (!c->calls) abort();
  }
  c->calls[c->count++] = *done;
  if (done->outcome != LOST) c->known[done->key] = done->version;
  c->was_refused = done->outcome == REFUSED;
  c->key = done->key;
}

/* What to do next: mostly a swap from what was heard last, sometimes from what is surely wrong, sometimes a read. */
static call next_call(client *c)
{
  call next = {.key = (unsigned)next_random(c, KEYS), .outcome = READ};
  uint64_t dice = next_random(c, 16);
  if (c->was_refused && dice < 8) next.key = c->key; /* can it read why? */
  next.expected = c->known[next.key];
  if (dice < 3 || (c->was_refused && dice < 8)) return next;
  if (dice == 3 && next.expected) next.expected -= 1;
  if (dice == 4) next.expected += 1;
  next.outcome = SWAPPED;
  next.value = ++c->made << 8 | c->index | 1ull << 40;
  if (c->index < CLIENTS) atomic_fetch_add(&c->sc->swaps, 1);
  return next;
}

/* ---- over HTTP ---- */

static uint64_t wait_for_life(scene *sc, uint64_t life)
{
  pthread_mutex_lock(&sc->lock);
  while (!atomic_load(&sc->is_over) && (!sc->is_up || sc->life <= life)) pthread_cond_wait(&sc->changed, &sc->lock);
  uint64_t next = sc->is_up ? sc->life : life;
  pthread_mutex_unlock(&sc->lock);
  return next;
}

static uint64_t member(const char *json, const char *name)
{
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\":", name);
  const char *at = json ? strstr(json, quoted) : NULL;
  return at ? strtoull(at + strlen(quoted), NULL, 10) : 0;
}

/* False: the connection is gone, and the call's answer with it. */
static bool call_server(client *c, int fd, call *next)
{
  char input[160];
  bool is_swap = next->outcome == SWAPPED;
  if (is_swap)
    snprintf(input, sizeof input, "{\"key\":\"k%u\",\"value\":%llu,\"expected_version\":%llu}", next->key, (unsigned long long)next->value,
             (unsigned long long)next->expected);
  else
    snprintf(input, sizeof input, "{\"key\":\"k%u\"}", next->key);
  next->begun_ns = now_ns();
  reply r = ask_on(fd, "POST", is_swap ? "/v1/call/state.shared.set" : "/v1/call/state.shared.get", "", input);
  next->ended_ns = now_ns();
  if (!r.status) {
    reply_done(&r);
    next->outcome = LOST;
    next->ended_ns = INT64_MAX;
    return false;
  }
  next->version = member(r.body, is_swap && r.status == 409 ? "actual" : "version");
  if (!is_swap) next->value = member(r.body, "value");
  if (is_swap && r.status == 409) next->outcome = REFUSED;
  if (r.status != 200 && r.status != 409) fault(c->sc, "status %d: %s", r.status, r.body);
  reply_done(&r);
  return true;
}

static void *be_client(void *ctx)
{
  client *c = ctx;
  uint64_t life = 0;
  while (!atomic_load(&c->sc->is_over)) {
    life = wait_for_life(c->sc, life);
    int fd = atomic_load(&c->sc->is_over) ? -1 : served_connect(c->sc->server);
    for (bool goes_on = fd >= 0; goes_on && !atomic_load(&c->sc->is_over);) {
      call next = next_call(c);
      goes_on = call_server(c, fd, &next);
      if (goes_on || next.value) note(c, &next); /* a read whose answer was lost says nothing */
    }
    if (fd >= 0) close(fd);
  }
  return NULL;
}

/* ---- with the store itself ---- */

static void *be_neighbour(void *ctx)
{
  client *c = ctx;
  char uri[CRASH_URI_MAX], key[8], value[32];
  pd_store *store = NULL;
  pd_error err = {0};
  snprintf(uri, sizeof uri, "sqlite:%s/home", c->sc->server->folder);
  if (pd_store_open(uri, "shared", NULL, &store, &err)) {
    fault(c->sc, "shared does not open: %s", err.message);
    return NULL;
  }
  for (uint64_t at = 0; !atomic_load(&c->sc->is_over);) {
    if (atomic_load(&c->sc->swaps) < at) {
      pause_ms(1); /* it is so much faster than the others that it would have the keys to itself */
      continue;
    }
    at = atomic_load(&c->sc->swaps) + PACE;
    call next = next_call(c);
    pd_entry entry = {0};
    pd_ack ack = {0};
    snprintf(key, sizeof key, "k%u", next.key);
    snprintf(value, sizeof value, "%llu", (unsigned long long)next.value);
    next.begun_ns = now_ns();
    pd_code code = next.outcome == READ ? pd_get(store, "main", pd_text(key), NULL, &entry, &err)
                                        : pd_put_if(store, pd_text(key), pd_text(value), next.expected, NULL, &ack, &err);
    next.ended_ns = now_ns();
    if (next.outcome == READ) next.version = code ? 0 : entry.version;
    if (next.outcome == SWAPPED) next.version = code ? err.actual : ack.version;
    if (code == PD_CONFLICT) next.outcome = REFUSED;
    if (code && code != PD_CONFLICT && code != PD_NOT_FOUND) fault(c->sc, "the neighbour: %s", err.message);
    note(c, &next);
  }
  if (pd_store_close(store, NULL)) fault(c->sc, "the neighbour's store does not close");
  return NULL;
}

/* ---- checking ---- */

typedef struct history {
  uint64_t *values; /* of each version, from 1 */
  uint64_t count;
} history;

static bool take_version(void *ctx, const pd_version_info *info)
{
  history *h = ctx;
  char text[32] = {0};
  memcpy(text, info->value.data, info->value.size < 31 ? info->value.size : 31);
  if (!h->values) {
    h->count = info->entry.version;
    h->values = calloc(h->count + 1, sizeof *h->values);
    if (!h->values) abort();
  }
  h->values[info->entry.version] = strtoull(text, NULL, 10);
  return true;
}

typedef struct placed {
  const call *call;
  uint64_t block;
  bool is_write;
} placed;

static int by_start(const void *a, const void *b)
{
  const placed *x = a, *y = b;
  return (x->call->begun_ns > y->call->begun_ns) - (x->call->begun_ns < y->call->begun_ns);
}

static int by_end(const void *a, const void *b)
{
  const placed *x = *(placed *const *)a, *y = *(placed *const *)b;
  return (x->call->ended_ns > y->call->ended_ns) - (x->call->ended_ns < y->call->ended_ns);
}

static int by_value(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Which version a lost call made, if it made one. */
typedef struct made {
  uint64_t value, version;
} made;

static void place_call(scene *sc, const call *c, const history *h, const made *all, placed *out, size_t *count)
{
  if (c->outcome == LOST) {
    const made *m = bsearch(&c->value, all, h->count, sizeof *all, by_value);
    if (!m) return; /* it was not made */
    if (m->version != c->expected + 1)
      fault(sc, "a lost swap from %llu made version %llu", (unsigned long long)c->expected, (unsigned long long)m->version);
    out[(*count)++] = (placed){c, m->version, true};
    return;
  }
  unsigned long long version = c->version;
  if (version > h->count) fault(sc, "key %u: version %llu was named, and never was", c->key, version);
  if (c->outcome == SWAPPED && version != c->expected + 1)
    fault(sc, "a swap from %llu made version %llu", (unsigned long long)c->expected, version);
  if (c->outcome == REFUSED && version == c->expected) fault(sc, "key %u: refused though version %llu was expected", c->key, version);
  bool has_value = c->outcome == SWAPPED || (c->outcome == READ && c->value);
  if (has_value && version <= h->count && h->values[version] != c->value)
    fault(sc, "key %u: version %llu has another value", c->key, version);
  out[(*count)++] = (placed){c, c->version, c->outcome == SWAPPED};
}

/* The pairwise rule of the head comment: when a call begins, no later block may have been left behind by one that is over. */
static void check_order(scene *sc, placed *calls, size_t count, unsigned key)
{
  placed **ended = malloc((count + 1) * sizeof *ended);
  if (!ended) abort();
  qsort(calls, count, sizeof *calls, by_start);
  for (size_t i = 0; i < count; i++) ended[i] = &calls[i];
  qsort(ended, count, sizeof *ended, by_end);
  uint64_t newest = 0;
  bool has_any = false;
  for (size_t i = 0, over = 0; i < count; i++) {
    for (; over < count && ended[over]->call->ended_ns < calls[i].call->begun_ns; over++) {
      if (!has_any || ended[over]->block > newest) newest = ended[over]->block;
      has_any = true;
    }
    bool is_late = has_any && (calls[i].block < newest || (calls[i].is_write && calls[i].block == newest));
    static const char *const words[] = {"made", "was refused for", "read", "made (its answer was lost)"};
    if (is_late)
      fault(sc, "key %u: a call %s version %llu after version %llu had been seen", key, words[calls[i].call->outcome],
            (unsigned long long)calls[i].block, (unsigned long long)newest);
  }
  free(ended);
}

static void check_key(scene *sc, pd_store *store, unsigned key, uint64_t *out_versions)
{
  history h = {0};
  char name[8];
  size_t count = 0, all = 0;
  snprintf(name, sizeof name, "k%u", key);
  pd_code code = pd_history_values(store, "main", pd_text(name), 0, take_version, &h, NULL);
  if (code && code != PD_NOT_FOUND) fault(sc, "the history of %s cannot be read", name);
  made *made_by = calloc(h.count + 1, sizeof *made_by);
  for (unsigned i = 0; i <= CLIENTS; i++) all += sc->clients[i].count;
  placed *calls = calloc(all + 1, sizeof *calls);
  if (!made_by || !calls) abort();
  for (uint64_t v = 1; v <= h.count; v++) made_by[v - 1] = (made){h.values[v], v};
  qsort(made_by, h.count, sizeof *made_by, by_value);
  for (uint64_t i = 1; i < h.count; i++)
    if (made_by[i].value == made_by[i - 1].value) fault(sc, "key %u: one swap made two versions", key);
  for (unsigned i = 0; i <= CLIENTS; i++)
    for (size_t k = 0; k < sc->clients[i].count; k++)
      if (sc->clients[i].calls[k].key == key) place_call(sc, &sc->clients[i].calls[k], &h, made_by, calls, &count);
  check_order(sc, calls, count, key);
  *out_versions += h.count;
  free(h.values);
  free(made_by);
  free(calls);
}

/* ---- all of it ---- */

static void set_up(scene *sc, bool is_up)
{
  pthread_mutex_lock(&sc->lock);
  sc->is_up = is_up;
  sc->life += is_up;
  pthread_cond_broadcast(&sc->changed);
  pthread_mutex_unlock(&sc->lock);
}

static void start_clients(scene *sc)
{
  for (unsigned i = 0; i <= CLIENTS; i++) {
    sc->clients[i] = (client){.sc = sc, .index = i, .random = crash_random(UINT64_MAX - 1) + 1};
    if (pthread_create(&sc->clients[i].thread, NULL, i < CLIENTS ? be_client : be_neighbour, &sc->clients[i])) abort();
  }
}

static uint64_t live_and_die(scene *sc, uint64_t calls, uint64_t kills)
{
  uint64_t killed = 0;
  set_up(sc, true);
  while (atomic_load(&sc->swaps) < calls && !atomic_load(&sc->faults)) {
    pause_ms(killed < kills ? crash_random(LIFE_MS_MAX) : 5);
    if (killed == kills) continue;
    kill(sc->server->pid, SIGKILL);
    served_wait(sc->server);
    set_up(sc, false);
    served_again(sc->server);
    set_up(sc, true);
    killed++;
  }
  return killed;
}

static void end_clients(scene *sc)
{
  pthread_mutex_lock(&sc->lock);
  atomic_store(&sc->is_over, true);
  pthread_cond_broadcast(&sc->changed);
  pthread_mutex_unlock(&sc->lock);
  for (unsigned i = 0; i <= CLIENTS; i++) pthread_join(sc->clients[i].thread, NULL);
}

static void check_all(scene *sc, uint64_t kills)
{
  char uri[CRASH_URI_MAX];
  pd_store *store = NULL;
  uint64_t versions = 0, counts[4] = {0};
  snprintf(uri, sizeof uri, "sqlite:%s/home", sc->server->folder);
  assert_int_equal(pd_store_open(uri, "shared", NULL, &store, NULL), PD_OK);
  for (unsigned key = 0; key < KEYS; key++) check_key(sc, store, key, &versions);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  for (unsigned i = 0; i <= CLIENTS; i++) {
    for (size_t k = 0; k < sc->clients[i].count; k++) counts[sc->clients[i].calls[k].outcome]++;
    free(sc->clients[i].calls);
  }
  printf("# %llu kills; %llu swaps made, %llu refused, %llu reads, %llu answers lost; %llu versions; %u faults\n",
         (unsigned long long)kills, (unsigned long long)counts[SWAPPED], (unsigned long long)counts[REFUSED],
         (unsigned long long)counts[READ], (unsigned long long)counts[LOST], (unsigned long long)versions, atomic_load(&sc->faults));
  assert_int_equal(atomic_load(&sc->faults), 0);
  assert_true(counts[SWAPPED] && counts[REFUSED] && counts[READ]);
}

static void torture(uint64_t calls, uint64_t kills)
{
  static const char *const args[] = {"--no-auth", "--log-level", "error", NULL};
  static scene sc;
  sc = (scene){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  crash_seed();
  sc.server = served_start(args);
  reply r = ask_call(sc.server, "main", "state.shared.list", "{}"); /* the store is there before anybody opens it */
  reply_done(&r);
  start_clients(&sc);
  uint64_t killed = live_and_die(&sc, calls, kills);
  end_clients(&sc);
  assert_int_equal(served_stop(sc.server), 0);
  check_all(&sc, killed);
  served_free(sc.server);
}

static void cas__is_linearizable_with_kills_and_another_process(void **state)
{
  (void)state;
  torture(crash_count(CALLS_SHORT, CALLS_FULL), crash_count(KILLS_SHORT, KILLS_FULL));
}

static const char *slow_sync; /* a library that makes syncs slow */

/* A sanitizer's library wants to be the first: its path is among what this program has mapped. */
static void make_slow(void)
{
  char first[512] = "", line[512];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && !first[0] && fgets(line, sizeof line, maps)) {
    char *path = strchr(line, '/');
    if (path && (strstr(path, "/libasan.so") || strstr(path, "/libtsan.so"))) {
      path[strcspn(path, "\n")] = 0;
      (void)snprintf(first, sizeof first, "%s", path);
    }
  }
  if (maps) (void)fclose(maps);
  char both[1024];
  (void)snprintf(both, sizeof both, "%s%s%s", first, first[0] ? ":" : "", slow_sync);
  setenv("LD_PRELOAD", both, 1);
}

static void cas__is_linearizable_on_a_disk_with_slow_syncs(void **state)
{
  (void)state;
  served_prepare = make_slow;
  torture(crash_count(CALLS_SHORT / 6, CALLS_FULL / 10), crash_count(2, KILLS_FULL / 4));
  served_prepare = NULL;
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(cas__is_linearizable_with_kills_and_another_process),
    cmocka_unit_test(cas__is_linearizable_on_a_disk_with_slow_syncs),
  };
  if (argc < 3) return 2;
  served_binary = argv[1];
  slow_sync = argv[2];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("cas", tests, NULL, NULL);
}
