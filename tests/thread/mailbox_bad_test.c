/* mailbox_bad_test.c: what a mailbox refuses, its limits, and damage. */
#include "thread/mailbox_world.h"

/* ---- what is refused ---- */

static void mailbox__ids_of_threads_are_checked(void **state)
{
  (void)state;
  static const char *const bad[] = {"",     ".a",  "a..b", "a/b",
                                    "../x", "a b", "a\n",  "\xc3\xa4",
                                    "a:b",  "a~1", "@x",   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  pd_mailbox *other = NULL;
  for (size_t i = 0; i < COUNT_OF(bad); i++) FAILS(pd_mailbox_open(store, bad[i], NULL, &other, &err), PD_INVALID, "InvalidId");
  FAILS(pd_mailbox_open(store, NULL, NULL, &other, &err), PD_INVALID, "InvalidId");
  assert_null(other);
}

static void mailbox__bad_letters_are_refused_and_nothing_is_written(void **state)
{
  (void)state;
  char long_text[PD_MAIL_DEDUPE_SIZE_MAX + 2];
  memset(long_text, 'k', sizeof long_text);
  long_text[sizeof long_text - 1] = 0;
  const struct {
    pd_mail mail;
    pd_code code;
  } bad[] = {
    {{.body = pd_text("")}, PD_INVALID},
    {{.body = pd_text("{")}, PD_INVALID},
    {{.body = pd_text("{\"a\":1,\"a\":2}")}, PD_INVALID},
    {{.body = pd_text("1"), .kind = ""}, PD_INVALID},
    {{.body = pd_text("1"), .kind = "\xff"}, PD_INVALID},
    {{.body = pd_text("1"), .sender = long_text}, PD_LIMIT},
    {{.body = pd_text("1"), .dedupe_key = ""}, PD_INVALID},
    {{.body = pd_text("1"), .dedupe_key = long_text}, PD_LIMIT},
    {{.body = pd_text("1"), .priority = 1001}, PD_INVALID},
    {{.body = pd_text("1"), .priority = -1001}, PD_INVALID},
    {{.body = pd_text("1"), .attempts_max = 1001}, PD_LIMIT},
    {{.body = pd_text("1"), .not_before_ms = -1}, PD_INVALID},
  };
  pd_commit commit;
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_code code = pd_mailbox_send(box, &bad[i].mail, NULL, &err);
    if (code != bad[i].code) fail_msg("case %zu: %d, not %d", i, code, bad[i].code);
  }
  assert_int_equal(pd_resolve(store, "mailbox/t.1", &commit, &err), PD_NOT_FOUND);
}

static void mailbox__a_body_has_at_most_1_mib(void **state)
{
  (void)state;
  char *body = malloc(PD_MAIL_BODY_SIZE_MAX + 1);
  assert_non_null(body);
  memset(body, '1', PD_MAIL_BODY_SIZE_MAX + 1);
  pd_mail mail = {.body = {body, PD_MAIL_BODY_SIZE_MAX + 1}};
  assert_int_equal(pd_mailbox_send(box, &mail, NULL, &err), PD_LIMIT);
  mail.body.size--;
  OK(pd_mailbox_send(box, &mail, NULL, &err));
  free(body);
}

static void mailbox__bad_claims_are_refused(void **state)
{
  (void)state;
  static const pd_claim bad[] = {
    {.consumer = NULL, .lease_ms = 1},        {.consumer = "", .lease_ms = 1},
    {.consumer = "\xff", .lease_ms = 1},      {.consumer = "w", .lease_ms = 0},
    {.consumer = "w", .lease_ms = -5},        {.consumer = "w", .lease_ms = PD_MAIL_LEASE_MS_MAX + 1},
    {.consumer = "w", .lease_ms = INT64_MAX}, {.consumer = "w", .lease_ms = INT64_MIN},
  };
  list all = {0};
  send("1");
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(pd_mailbox_claim(box, &bad[i], keep, &all, NULL, &err), PD_INVALID);
  pd_claim many = {.consumer = "w", .lease_ms = 1, .count = 101};
  assert_int_equal(pd_mailbox_claim(box, &many, keep, &all, NULL, &err), PD_LIMIT);
  is(1, PD_MAIL_QUEUED);
}

static void mailbox__a_full_mailbox_refuses_letters_until_one_is_settled(void **state)
{
  (void)state;
  pd_mail_sent sent;
  pd_mail mail = {.body = pd_text("1")}, stop = {.body = pd_text("1"), .is_interrupt = true};
  for (int i = 0; i < 20; i++) send("1");
  FAILS(pd_mailbox_send(box, &mail, NULL, &err), PD_QUOTA, "MailboxFull");
  seen s = claim_one(1000);
  FAILS(pd_mailbox_send(box, &mail, NULL, &err), PD_QUOTA, "MailboxFull");
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  OK(pd_mailbox_send(box, &mail, NULL, &err));
  OK(pd_mailbox_send(box, &stop, &sent, &err));
  assert_int_equal(sent.superseded, 20);
}

static void mailbox__damage_is_told_by_the_name_of_the_key(void **state)
{
  (void)state;
  static const char *const damage[][2] = {
    {"letter/00000000000000000001", "{}"},
    {"letter/00000000000000000001", "{\"status\":\"lost\",\"attempts\":0}"},
    {"mail/00000000000000000001", "[1"},
    {"mail/00000000000000000001", "{\"priority\":5000,\"body\":1}"},
    {"head", "{}"},
    {"queued/1000/00000000000000000001", "x"},
  };
  list all = {0};
  pd_claim claim = {.consumer = "w", .lease_ms = 1};
  for (size_t i = 0; i < COUNT_OF(damage); i++) {
    pd_mailbox_options options = {.now_ms = read_now};
    pd_mailbox *other;
    char id[32], ref[64];
    snprintf(id, sizeof id, "d%zu", i);
    snprintf(ref, sizeof ref, "mailbox/%s", id);
    OK(pd_mailbox_open(store, id, &options, &other, &err));
    OK(pd_mailbox_send(other, &(pd_mail){.body = pd_text("1")}, NULL, &err));
    OK(pd_put(store, pd_text(damage[i][0]), pd_text(damage[i][1]), &(pd_note){.ref = ref}, NULL, &err));
    FAILS(pd_mailbox_claim(other, &claim, keep, &all, NULL, &err), PD_CORRUPT, "Corrupt");
    assert_non_null(strstr(err.message, "mailbox/d"));
    pd_mailbox_close(other);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(mailbox__ids_of_threads_are_checked),
    CASE(mailbox__bad_letters_are_refused_and_nothing_is_written),
    CASE(mailbox__a_body_has_at_most_1_mib),
    CASE(mailbox__bad_claims_are_refused),
    CASE(mailbox__a_full_mailbox_refuses_letters_until_one_is_settled),
    CASE(mailbox__damage_is_told_by_the_name_of_the_key),
  };
  return cmocka_run_group_tests_name("thread mailbox bad", tests, NULL, NULL);
}
