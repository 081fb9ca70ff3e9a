/* mailbox_world.h: a mailbox in memory with a clock of its own, and what tests ask of it in few words. */
#ifndef THREAD_MAILBOX_WORLD_H
#define THREAD_MAILBOX_WORLD_H

#include "base/base.h"
#include "base/buf.h"

#include <perdure/mailbox.h>
#include <perdure/perdure.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_store *store;
static pd_mailbox *box;
static int64_t now;
static pd_error err;

static inline int64_t read_now(void *ctx)
{
  (void)ctx;
  return now;
}

static inline int set_up(void **state)
{
  (void)state;
  now = 1000000;
  pd_options options = {.now_ms = read_now};
  pd_mailbox_options box_options = {.now_ms = read_now, .count_max = 20, .keep_ms = 60000, .author = "tester"};
  if (pd_store_open("memory:", "main", &options, &store, &err)) return -1;
  return pd_mailbox_open(store, "t.1", &box_options, &box, &err) ? -1 : 0;
}

static inline int tear_down(void **state)
{
  (void)state;
  pd_mailbox_close(box);
  return pd_store_close(store, &err) ? -1 : 0;
}

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)
#define FAILS(call, expected_code, expected_name)                                                                                          \
  do {                                                                                                                                     \
    err = (pd_error){0};                                                                                                                   \
    assert_int_equal(call, expected_code);                                                                                                 \
    assert_int_equal(err.code, expected_code);                                                                                             \
    assert_true(err.message[0]);                                                                                                           \
    if (strcmp(pd_error_name(&err), expected_name) != 0) fail_msg("%s, not %s: %s", pd_error_name(&err), expected_name, err.message);      \
  } while (0)

/* What is left of a letter when the visitor has returned. */
typedef struct seen {
  uint64_t number, generation, superseded_by;
  pd_mail_status status;
  uint32_t attempts, attempts_max;
  int32_t priority;
  int64_t created_ms, updated_ms, retry_ms, lease_until_ms;
  char token[PD_MAIL_TOKEN_SIZE], kind[64], sender[64], dedupe_key[64], claimed_by[64], error[PD_MAIL_ERROR_SIZE_MAX + 1], body[64];
} seen;

typedef struct list {
  seen items[200];
  size_t count;
} list;

static inline bool keep(void *ctx, const pd_letter *l)
{
  list *all = ctx;
  seen *s = &all->items[all->count++];
  *s = (seen){.number = l->number,
              .generation = l->generation,
              .superseded_by = l->superseded_by,
              .status = l->status,
              .attempts = l->attempts,
              .attempts_max = l->attempts_max,
              .priority = l->priority,
              .created_ms = l->created_ms,
              .updated_ms = l->updated_ms,
              .retry_ms = l->retry_ms,
              .lease_until_ms = l->lease_until_ms};
  snprintf(s->token, sizeof s->token, "%s", l->token);
  snprintf(s->kind, sizeof s->kind, "%s", l->kind);
  snprintf(s->sender, sizeof s->sender, "%s", l->sender);
  snprintf(s->dedupe_key, sizeof s->dedupe_key, "%s", l->dedupe_key);
  snprintf(s->claimed_by, sizeof s->claimed_by, "%s", l->claimed_by);
  snprintf(s->error, sizeof s->error, "%s", l->error);
  snprintf(s->body, sizeof s->body, "%.*s", (int)(l->body.size < 60 ? l->body.size : 60), (const char *)l->body.data);
  return true;
}

static inline uint64_t send(const char *body)
{
  pd_mail_sent sent;
  pd_mail mail = {.body = pd_text(body)};
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  return sent.number;
}

static inline uint64_t send_with(pd_mail mail)
{
  pd_mail_sent sent;
  if (!mail.body.size) mail.body = pd_text("1");
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_false(sent.is_duplicate);
  return sent.number;
}

static inline seen show(uint64_t number)
{
  list all = {0};
  OK(pd_mailbox_show(box, number, keep, &all, &err));
  assert_int_equal(all.count, 1);
  return all.items[0];
}

static inline pd_claim_found claim_all(uint32_t count, int64_t lease_ms, list *out)
{
  pd_claim_found found;
  pd_claim claim = {.consumer = "worker", .lease_ms = lease_ms, .count = count};
  out->count = 0;
  OK(pd_mailbox_claim(box, &claim, keep, out, &found, &err));
  assert_int_equal(found.count, out->count);
  return found;
}

static inline seen claim_one(int64_t lease_ms)
{
  list all;
  claim_all(1, lease_ms, &all);
  assert_int_equal(all.count, 1);
  return all.items[0];
}

static inline void none_is_claimable(void)
{
  list all;
  claim_all(100, 1000, &all);
  assert_int_equal(all.count, 0);
}

static inline void is(uint64_t number, pd_mail_status status)
{
  assert_string_equal(pd_mail_status_name(show(number).status), pd_mail_status_name(status));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
