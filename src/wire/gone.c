/* gone.c: see gone.h. */
#include "wire/gone.h"

#include "base/base.h"
#include "base/error.h"
#include "base/map.h"
#include "base/spawn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_SIZE ((size_t)128 * 1024)
#define EVENTS_MAX 64

struct pd_gone {
  int epoll, end; /* end: an eventfd, written to when the thread shall end */
  pthread_t thread;
  pthread_mutex_t lock; /* of what follows */
  uint64_t next_number; /* the kernel may tell of one that was forgotten meanwhile: numbers are never used twice */
  pd_map leavers;
};

static pd_bytes number_of(const void *leaver)
{
  return (pd_bytes){&((const pd_leaver *)leaver)->number, sizeof(uint64_t)};
}

/* Under the lock. */
static void stop_watching(pd_gone *gone, pd_leaver *leaver)
{
  epoll_ctl(gone->epoll, EPOLL_CTL_DEL, leaver->fd, NULL);
  pd_map_remove(&gone->leavers, number_of(leaver));
  leaver->number = 0;
}

static void tell(pd_gone *gone, uint64_t number, uint32_t events)
{
  pthread_mutex_lock(&gone->lock);
  pd_leaver *leaver = pd_map_find(&gone->leavers, (pd_bytes){&number, sizeof number});
  bool has_left = leaver && (events & (EPOLLHUP | EPOLLERR));
  if (has_left) {
    stop_watching(gone, leaver);
    if (leaver->left) leaver->left(leaver->ctx);
  } else if (leaver && !leaver->is_half) {
    leaver->is_half = true;
    if (leaver->half) leaver->half(leaver->ctx);
  }
  pthread_mutex_unlock(&gone->lock);
}

static void *watch(void *ctx)
{
  pd_gone *gone = ctx;
  struct epoll_event events[EVENTS_MAX];
  for (;;) {
    int count = epoll_wait(gone->epoll, events, EVENTS_MAX, -1);
    for (int i = 0; i < count; i++) {
      if (!events[i].data.u64) return NULL;
      tell(gone, events[i].data.u64, events[i].events);
    }
  }
}

static pd_code set_up(pd_gone *gone, pd_error *err)
{
  struct epoll_event event = {.events = EPOLLIN};
  gone->epoll = epoll_create1(EPOLL_CLOEXEC);
  gone->end = eventfd(0, EFD_CLOEXEC);
  if (gone->epoll < 0 || gone->end < 0 || epoll_ctl(gone->epoll, EPOLL_CTL_ADD, gone->end, &event))
    return pd_error_set(err, PD_STORAGE, "cannot watch over connections: %s", strerror(errno));
  int failed = pd_spawn(&gone->thread, STACK_SIZE, watch, gone);
  return failed ? pd_error_set(err, PD_STORAGE, "cannot start a thread to watch over connections: %s", strerror(failed)) : PD_OK;
}

static void let_go(pd_gone *gone)
{
  if (gone->epoll >= 0) close(gone->epoll);
  if (gone->end >= 0) close(gone->end);
  pd_map_done(&gone->leavers);
  pthread_mutex_destroy(&gone->lock);
  free(gone);
}

pd_code pd_gone_new(pd_gone **out, pd_error *err)
{
  pd_gone *gone = calloc(1, sizeof *gone);
  if (!gone) return pd_error_memory(err, "the server");
  gone->epoll = gone->end = -1;
  gone->leavers.key_of = number_of;
  pthread_mutex_init(&gone->lock, NULL);
  pd_code code = set_up(gone, err);
  if (code)
    let_go(gone);
  else
    *out = gone;
  return code;
}

void pd_gone_free(pd_gone *gone)
{
  if (!gone) return;
  while (eventfd_write(gone->end, 1) && errno == EINTR) continue;
  pthread_join(gone->thread, NULL);
  let_go(gone);
}

void pd_gone_watch(pd_gone *gone, pd_leaver *leaver)
{
  if (leaver->fd < 0) return;
  pthread_mutex_lock(&gone->lock);
  leaver->number = ++gone->next_number;
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = leaver->number};
  if (pd_map_put(&gone->leavers, leaver, NULL, NULL))
    leaver->number = 0;
  else if (epoll_ctl(gone->epoll, EPOLL_CTL_ADD, leaver->fd, &event))
    stop_watching(gone, leaver);
  pthread_mutex_unlock(&gone->lock);
}

void pd_gone_forget(pd_gone *gone, pd_leaver *leaver)
{
  pthread_mutex_lock(&gone->lock);
  if (leaver->number) stop_watching(gone, leaver);
  pthread_mutex_unlock(&gone->lock);
}
