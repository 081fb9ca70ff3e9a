/* tail.c: see tail.h. */
#include "remote/tail.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "remote/client.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 20000u     /* the server answers after this time, also if there is nothing new */
#define AGAIN_MS 1000      /* after a failure */
#define FOLLOW_AFTER_MS 50 /* a store that is open for so long is followed */

struct pd_tail {
  pd_tail *next;
  char *uri;
  char store[PD_NAME_SIZE_MAX + 1];
  unsigned refs; /* under `table.lock` */
  _Atomic uint64_t seq;
  _Atomic uint32_t bell; /* changes with `seq`: a futex */
  _Atomic int64_t opened_ms;
  atomic_bool is_followed, must_stop;
  pthread_t thread;
  CURLM *multi;
};

static struct {
  pthread_mutex_t lock;
  pthread_once_t once;
  pd_tail *first;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* ---- the table ---- */

/* The threads stayed with the parent. */
static void forget_tails(void)
{
  pthread_mutex_init(&table.lock, NULL);
  table.first = NULL;
}

static void mind_forks(void)
{
  pthread_atfork(NULL, NULL, forget_tails);
}

static int64_t coarse_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static pd_tail *find_tail(const char *uri, const char *store)
{
  pd_tail *tail = table.first;
  while (tail && (strcmp(tail->uri, uri) != 0 || strcmp(tail->store, store) != 0)) tail = tail->next;
  return tail;
}

static pd_tail *add_tail(const char *uri, const char *store)
{
  pd_tail *tail = calloc(1, sizeof *tail);
  if (tail) tail->uri = strdup(uri);
  if (!tail || !tail->uri) {
    free(tail);
    return NULL;
  }
  snprintf(tail->store, sizeof tail->store, "%s", store);
  tail->opened_ms = coarse_ms();
  tail->next = table.first;
  table.first = tail;
  return tail;
}

pd_code pd_tail_open(const char *uri, const char *store, pd_tail **out, pd_error *err)
{
  pthread_once(&table.once, mind_forks);
  pthread_mutex_lock(&table.lock);
  pd_tail *tail = find_tail(uri, store);
  if (!tail) tail = add_tail(uri, store);
  if (tail) tail->refs++;
  pthread_mutex_unlock(&table.lock);
  *out = tail;
  return tail ? PD_OK : pd_error_memory(err, "a store on a server");
}

static void end_thread(pd_tail *tail)
{
  if (!atomic_load(&tail->is_followed)) return;
  atomic_store(&tail->must_stop, true);
  pd_libcurl.multi_wakeup(tail->multi);
  pthread_join(tail->thread, NULL);
  pd_libcurl.multi_cleanup(tail->multi);
}

void pd_tail_close(pd_tail *tail)
{
  if (!tail) return;
  pthread_mutex_lock(&table.lock);
  bool is_last = --tail->refs == 0;
  for (pd_tail **at = &table.first; is_last && *at; at = &(*at)->next)
    if (*at == tail) {
      *at = tail->next;
      break;
    }
  pthread_mutex_unlock(&table.lock);
  if (!is_last) return;
  end_thread(tail);
  free(tail->uri);
  free(tail);
}

/* ---- the number ---- */

void pd_tail_raise(pd_tail *tail, uint64_t seq)
{
  uint64_t before = atomic_load_explicit(&tail->seq, memory_order_relaxed);
  while (before < seq)
    if (atomic_compare_exchange_weak(&tail->seq, &before, seq)) {
      atomic_fetch_add(&tail->bell, 1);
      syscall(SYS_futex, (uint32_t *)&tail->bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
      return;
    }
}

/* ---- following ---- */

/* One long request, which a close can cut short. */
static pd_code ask_for_news(pd_tail *tail, CURL *easy, pd_buf *out, pd_remote_reply *reply)
{
  CLEANUP(pd_exchange_done) pd_exchange x = {0};
  char path[PD_NAME_SIZE_MAX + 96];
  int running = 1, left;
  CURLMsg *message = NULL;
  snprintf(path, sizeof path, "/v1/stores/%s/log/wait?after=%llu&ms=%u", tail->store, (unsigned long long)atomic_load(&tail->seq), POLL_MS);
  pd_remote_request request = {.uri = tail->uri, .method = "GET", .path = path, .role = pd_remote_role(tail->uri)};
  TRY(pd_exchange_begin(&x, easy, &request, out, NULL));
  if (pd_libcurl.multi_add_handle(tail->multi, easy) != CURLM_OK) return PD_NO_MEMORY;
  while (running && !atomic_load(&tail->must_stop) && pd_libcurl.multi_perform(tail->multi, &running) == CURLM_OK)
    if (running) pd_libcurl.multi_poll(tail->multi, NULL, 0, 1000, NULL);
  message = pd_libcurl.multi_info_read(tail->multi, &left);
  CURLcode result = message && message->msg == CURLMSG_DONE ? message->data.result : CURLE_GOT_NOTHING;
  pd_code code = pd_exchange_end(&x, result, tail->uri, NULL);
  pd_libcurl.multi_remove_handle(tail->multi, easy);
  *reply = x.reply;
  return code ? code : reply->status == 200 ? PD_OK : PD_STORAGE;
}

static void *follow(void *ctx)
{
  pd_tail *tail = ctx;
  CLEANUP(pd_buf_done) pd_buf out = {.size_max = 65536};
  CURL *easy = pd_libcurl.easy_init();
  while (easy && !atomic_load(&tail->must_stop)) {
    pd_remote_reply reply = {0};
    if (ask_for_news(tail, easy, &out, &reply) == PD_OK)
      pd_tail_raise(tail, reply.tail);
    else if (!atomic_load(&tail->must_stop))
      pd_libcurl.multi_poll(tail->multi, NULL, 0, AGAIN_MS, NULL); /* or until it is woken */
  }
  pd_libcurl.easy_cleanup(easy);
  return NULL;
}

/* Signals are the main thread's. If no thread is to be had, the number is that of the last answer, as before. */
static void start_thread(pd_tail *tail)
{
  sigset_t all, before;
  pthread_mutex_lock(&table.lock);
  if (!atomic_load(&tail->is_followed)) {
    tail->multi = pd_libcurl.multi_init();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = tail->multi && pthread_create(&tail->thread, NULL, follow, tail) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!is_started) pd_libcurl.multi_cleanup(tail->multi);
    if (!is_started) tail->opened_ms = INT64_MAX / 2; /* not again with each look */
    atomic_store(&tail->is_followed, is_started);
  }
  pthread_mutex_unlock(&table.lock);
}

uint64_t pd_tail_hint(pd_tail *tail)
{
  if (!atomic_load_explicit(&tail->is_followed, memory_order_relaxed) && coarse_ms() - tail->opened_ms > FOLLOW_AFTER_MS)
    start_thread(tail);
  return atomic_load_explicit(&tail->seq, memory_order_acquire);
}

pd_code pd_tail_wait(pd_tail *tail, uint64_t after, uint32_t timeout_ms, pd_error *err)
{
  int64_t end = pd_clock_monotonic_ms() + timeout_ms;
  (void)err;
  if (!atomic_load(&tail->is_followed)) start_thread(tail);
  for (;;) {
    uint32_t bell = atomic_load(&tail->bell);
    int64_t left = end - pd_clock_monotonic_ms();
    if (atomic_load(&tail->seq) > after || left <= 0) return PD_OK;
    struct timespec time = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    if (syscall(SYS_futex, (uint32_t *)&tail->bell, FUTEX_WAIT_PRIVATE, bell, &time, NULL, 0) < 0 && errno == EINTR) return PD_OK;
  }
}
