/*
 * view_test.c: whoever reads a thread does not wait for what others are writing. An append to the log hangs at the gate (gate_backend.h);
 * meanwhile a read ends, at the head and in the past, or a long time limit finds it.
 */
#include "support/gate_backend.h"
#include "thread/thread_world.h"

#include <perdure/mailbox.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#define WAIT_S 20
#define VERSIONS 12

typedef struct scene {
  thread_world w;
  pd_thread *other; /* a handle of the reader's own */
  void (*read)(struct scene *sc);
  sem_t done;
} scene;

static bool see_message(void *ctx, const pd_thread_message *message)
{
  (void)message;
  ++*(unsigned *)ctx;
  return true;
}

static bool see_delta(void *ctx, const pd_thread_delta *delta)
{
  (void)delta;
  ++*(unsigned *)ctx;
  return true;
}

static bool see_letter(void *ctx, const pd_letter *letter)
{
  (void)letter;
  ++*(unsigned *)ctx;
  return true;
}

static void want_state(scene *sc, pd_thread *t, uint64_t version, const char *expected)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_error err;
  if (pd_thread_state(t, version, NULL, &text, &err)) fail_msg("%s", err.message);
  (void)sc;
  if (!pd_bytes_equal(pd_buf_bytes(&text), pd_text(expected))) fail_msg("%.*s, not %s", (int)text.size, (const char *)text.data, expected);
}

static void read_load(scene *sc)
{
  pd_thread *t = NULL;
  assert_int_equal(pd_thread_open(sc->w.store, "t", &t, NULL), PD_OK);
  assert_int_equal(pd_thread_version(t), VERSIONS); /* what is on its way is not seen */
  want_state(sc, t, PD_VERSION_HEAD, "{\"n\":12}");
  pd_thread_close(t);
}

static void read_past(scene *sc)
{
  want_state(sc, sc->other, 3, "{\"n\":3}");
  want_state(sc, sc->other, 5, "{\"n\":5}");
}

static void read_messages(scene *sc)
{
  unsigned count = 0;
  pd_message_query query = {.version = 4};
  assert_int_equal(pd_thread_messages(sc->other, &query, see_message, &count, NULL, NULL), PD_OK);
  assert_int_equal(count, 4);
}

static void read_deltas(scene *sc)
{
  unsigned count = 0;
  assert_int_equal(pd_thread_deltas(sc->other, 2, 0, see_delta, &count, NULL), PD_OK);
  assert_int_equal(count, VERSIONS - 2);
}

static void read_mailbox(scene *sc)
{
  unsigned count = 0;
  pd_mailbox *box = NULL;
  assert_int_equal(pd_mailbox_open(sc->w.store, "t", NULL, &box, NULL), PD_OK);
  assert_int_equal(pd_mailbox_list(box, NULL, see_letter, &count, NULL), PD_OK);
  assert_int_equal(count, 1);
  pd_mailbox_close(box);
}

static void send_letter(scene *sc)
{
  thread_world *w = &sc->w;
  pd_mailbox *box = NULL;
  pd_mail_sent sent;
  world_need(w, pd_mailbox_open(w->store, "t", NULL, &box, &w->err));
  world_need(w, pd_mailbox_send(box, &(pd_mail){.body = pd_text("{}")}, &sent, &w->err));
  pd_mailbox_close(box);
}

static void *run_read(void *ctx)
{
  scene *sc = ctx;
  sc->read(sc);
  sem_post(&sc->done);
  return NULL;
}

static void *append(void *ctx)
{
  scene *sc = ctx;
  world_append(&sc->w, "[{\"id\":\"new\",\"role\":\"user\",\"content\":\"on its way\"}]",
               "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":99}]");
  return NULL;
}

static void fill(scene *sc, const char *uri)
{
  char messages[96], patches[96];
  world_open_at(&sc->w, uri);
  thread_world *w = &sc->w;
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = "t", .time_ms = 1000}, &w->t, &w->err));
  for (int i = 1; i <= VERSIONS; i++) {
    snprintf(messages, sizeof messages, "[{\"id\":\"m%d\",\"role\":\"user\",\"content\":\"%d\"}]", i, i);
    snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":%d}]", i);
    world_append(w, messages, patches);
  }
  world_need(w, pd_thread_open(w->store, "t", &sc->other, &w->err));
}

static bool ends_in_time(sem_t *sem)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_S;
  return sem_timedwait(sem, &until) == 0;
}

static bool passes_the_append(scene *sc)
{
  pthread_t writer, reader;
  sem_init(&sc->done, 0, 0);
  gate_shut(GATE_LOG_APPEND);
  assert_int_equal(pthread_create(&writer, NULL, append, sc), 0);
  gate_await(1);
  assert_int_equal(pthread_create(&reader, NULL, run_read, sc), 0);
  bool passes = ends_in_time(&sc->done);
  gate_open();
  pthread_join(writer, NULL);
  pthread_join(reader, NULL);
  return passes;
}

static void thread_view__reads_pass_an_append_that_is_on_its_way(void **state)
{
  (void)state;
  static void (*const reads[])(scene * sc) = {read_load, read_past, read_messages, read_deltas, read_mailbox};
  unsigned waited = 0;
  gate_backend_install();
  for (unsigned i = 0; i < sizeof reads / sizeof *reads; i++) {
    char uri[64];
    scene sc = {.read = reads[i]};
    snprintf(uri, sizeof uri, "gate:memory:thread-view-%u", i);
    fill(&sc, uri);
    if (reads[i] == read_mailbox) send_letter(&sc);
    if (!passes_the_append(&sc)) waited |= 1u << i;
    pd_thread_close(sc.other);
    world_close(&sc.w);
  }
  if (waited) fail_msg("reads that waited for the append: mask %x", waited);
}

/* What this handle was acknowledged it reads, buffered or not. */
static void thread_view__a_buffered_thread_reads_its_own_writes(void **state)
{
  (void)state;
  scene sc = {0};
  thread_world *w = &sc.w;
  world_need(w, pd_store_open("memory:", "main", &(pd_options){.flush_ms = 600000}, &w->store, &w->err));
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = "t", .time_ms = 1000}, &w->t, &w->err));
  world_need(w, pd_thread_open(w->store, "t", &sc.other, &w->err));
  char patches[96], expected[32];
  for (int i = 1; i <= VERSIONS; i++) {
    snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":%d}]", i);
    world_append(w, NULL, patches);
    snprintf(expected, sizeof expected, "{\"n\":%d}", i);
    want_state(&sc, sc.other, PD_VERSION_HEAD, expected);
    if (i < 3) continue;
    snprintf(expected, sizeof expected, "{\"n\":%d}", i - 2);
    want_state(&sc, sc.other, (uint64_t)i - 2, expected);
  }
  pd_thread_close(sc.other);
  world_close(w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(thread_view__reads_pass_an_append_that_is_on_its_way),
    cmocka_unit_test(thread_view__a_buffered_thread_reads_its_own_writes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
