/* mailbox_test.c: letters of a thread: their states, claims, order, dedupe keys and interrupts. */
#include "thread/mailbox_world.h"

/* ---- the life of a letter ---- */

static void mailbox__a_letter_is_queued_claimed_and_accepted(void **state)
{
  (void)state;
  uint64_t number = send_with((pd_mail){.body = pd_text(" {\"a\" : [1, 2]} "), .kind = "chat", .sender = "ada", .dedupe_key = "k"});
  assert_int_equal(number, 1);
  seen s = show(1);
  assert_int_equal(s.status, PD_MAIL_QUEUED);
  assert_string_equal(s.body, "{\"a\":[1,2]}");
  assert_string_equal(s.kind, "chat");
  assert_string_equal(s.sender, "ada");
  assert_string_equal(s.dedupe_key, "k");
  assert_int_equal(s.created_ms, 1000000);
  assert_int_equal(s.attempts_max, PD_MAIL_ATTEMPTS_DEFAULT);
  now += 5;
  s = claim_one(30000);
  assert_int_equal(s.number, 1);
  assert_int_equal(s.attempts, 1);
  assert_int_equal(s.lease_until_ms, now + 30000);
  assert_int_equal(strlen(s.token), PD_MAIL_TOKEN_SIZE - 1);
  assert_string_equal(show(1).token, s.token);
  assert_string_equal(show(1).claimed_by, "worker");
  none_is_claimable();
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  is(1, PD_MAIL_ACCEPTED);
  none_is_claimable();
}

static void mailbox__accepting_twice_is_no_error_and_no_commit(void **state)
{
  (void)state;
  pd_commit before, after;
  send("1");
  seen s = claim_one(1000);
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  OK(pd_resolve(store, "mailbox/t.1", &before, &err));
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  OK(pd_resolve(store, "mailbox/t.1", &after, &err));
  assert_true(pd_id_equal(&before.id, &after.id));
  FAILS(pd_mailbox_reject(box, 1, s.token, NULL, NULL, &err), PD_CONFLICT, "LetterDone");
  FAILS(pd_mailbox_extend(box, 1, s.token, 10, &err), PD_CONFLICT, "LetterDone");
  FAILS(pd_mailbox_cancel(box, 1, &err), PD_CONFLICT, "LetterDone");
}

static void mailbox__only_the_tokens_holder_can_settle_a_letter(void **state)
{
  (void)state;
  char other[PD_MAIL_TOKEN_SIZE];
  send("1");
  seen s = claim_one(1000);
  memset(other, '0', sizeof other);
  other[PD_MAIL_TOKEN_SIZE - 1] = 0;
  FAILS(pd_mailbox_accept(box, 1, other, &err), PD_CONFLICT, "ClaimLost");
  FAILS(pd_mailbox_reject(box, 1, other, NULL, NULL, &err), PD_CONFLICT, "ClaimLost");
  FAILS(pd_mailbox_extend(box, 1, other, 10, &err), PD_CONFLICT, "ClaimLost");
  FAILS(pd_mailbox_accept(box, 1, "", &err), PD_INVALID, "InvalidArgument");
  FAILS(pd_mailbox_accept(box, 1, NULL, &err), PD_INVALID, "InvalidArgument");
  OK(pd_mailbox_accept(box, 1, s.token, &err));
}

static void mailbox__a_lease_that_ended_gives_the_letter_to_the_next(void **state)
{
  (void)state;
  list all;
  send("1");
  seen first = claim_one(1000);
  now += 999;
  none_is_claimable();
  now += 1;
  seen second = claim_one(1000);
  assert_int_equal(second.number, 1);
  assert_int_equal(second.attempts, 2);
  assert_string_not_equal(first.token, second.token);
  FAILS(pd_mailbox_accept(box, 1, first.token, &err), PD_CONFLICT, "ClaimLost");
  is(1, PD_MAIL_CLAIMED);
  OK(pd_mailbox_accept(box, 1, second.token, &err));
  claim_all(1, 1000, &all);
  assert_int_equal(all.count, 0);
}

#define YEAR_MS ((int64_t)365 * 24 * 3600 * 1000)

static void mailbox__a_lease_of_a_clock_a_year_ahead_ends_when_it_is_put_right(void **state)
{
  (void)state;
  send("1");
  now += YEAR_MS;
  claim_one(30000);
  now -= YEAR_MS;
  now += 60000;
  seen again = claim_one(1000);
  assert_int_equal(again.number, 1);
  now += 999;
  none_is_claimable();
}

static void mailbox__a_clock_a_year_ahead_for_one_send_forgets_no_dedupe_key(void **state)
{
  (void)state;
  pd_mail pay = {.body = pd_text("1"), .dedupe_key = "pay-1"}, other = {.body = pd_text("2")};
  pd_mail_sent sent;
  OK(pd_mailbox_send(box, &pay, &sent, &err));
  seen s = claim_one(1000);
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  now += YEAR_MS;
  OK(pd_mailbox_send(box, &other, &sent, &err));
  now -= YEAR_MS;
  now += 60000;
  OK(pd_mailbox_send(box, &pay, &sent, &err));
  assert_true(sent.is_duplicate);
}

static void mailbox__a_lease_that_ended_is_no_hindrance_while_nobody_else_has_the_letter(void **state)
{
  (void)state;
  send("1");
  seen s = claim_one(1000);
  now += 5000;
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  is(1, PD_MAIL_ACCEPTED);
}

static void mailbox__extending_a_lease_keeps_the_letter(void **state)
{
  (void)state;
  send("1");
  seen s = claim_one(1000);
  now += 900;
  OK(pd_mailbox_extend(box, 1, s.token, 5000, &err));
  assert_int_equal(show(1).lease_until_ms, now + 5000);
  now += 4999;
  none_is_claimable();
  now += 1;
  assert_int_equal(claim_one(1000).attempts, 2);
}

/* ---- trying again ---- */

static void mailbox__a_rejected_letter_comes_again_at_its_retry_time(void **state)
{
  (void)state;
  pd_mail_status status;
  list all;
  send("1");
  seen s = claim_one(1000);
  pd_rejection how = {.error = "model overloaded", .retry_ms = now + 7000};
  OK(pd_mailbox_reject(box, 1, s.token, &how, &status, &err));
  assert_int_equal(status, PD_MAIL_QUEUED);
  assert_string_equal(show(1).error, "model overloaded");
  assert_int_equal(show(1).retry_ms, now + 7000);
  assert_int_equal(claim_all(1, 1000, &all).next_due_ms, now + 7000);
  FAILS(pd_mailbox_accept(box, 1, s.token, &err), PD_CONFLICT, "ClaimLost");
  now += 7000;
  s = claim_one(1000);
  assert_int_equal(s.attempts, 2);
  assert_int_equal(s.retry_ms, 0);
}

static void mailbox__the_pause_after_a_rejection_doubles_up_to_five_minutes(void **state)
{
  (void)state;
  static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 300000, 300000};
  send_with((pd_mail){.attempts_max = 20});
  for (size_t i = 0; i < COUNT_OF(pauses); i++) {
    seen s = claim_one(1000);
    OK(pd_mailbox_reject(box, 1, s.token, NULL, NULL, &err));
    assert_int_equal(show(1).retry_ms, now + pauses[i]);
    now += pauses[i];
  }
}

static void mailbox__the_last_attempt_makes_a_dead_letter(void **state)
{
  (void)state;
  pd_mail_status status;
  send_with((pd_mail){.attempts_max = 2});
  for (int i = 1; i <= 2; i++) {
    seen s = claim_one(1000);
    pd_rejection how = {.error = "no", .retry_ms = 1};
    OK(pd_mailbox_reject(box, 1, s.token, &how, &status, &err));
    assert_int_equal(status, i == 1 ? PD_MAIL_QUEUED : PD_MAIL_DEAD);
  }
  is(1, PD_MAIL_DEAD);
  none_is_claimable();
  assert_string_equal(pd_mail_status_name(PD_MAIL_DEAD), "dead_letter");
}

static void mailbox__a_letter_whose_last_lease_ended_is_a_dead_letter(void **state)
{
  (void)state;
  list all;
  send_with((pd_mail){.attempts_max = 1});
  seen s = claim_one(1000);
  now += 1000;
  assert_int_equal(claim_all(1, 1000, &all).dead, 1);
  assert_int_equal(all.count, 0);
  is(1, PD_MAIL_DEAD);
  assert_string_equal(show(1).error, "its last lease ended");
  FAILS(pd_mailbox_accept(box, 1, s.token, &err), PD_CONFLICT, "LetterDone");
}

static void mailbox__a_final_rejection_makes_a_dead_letter_at_once(void **state)
{
  (void)state;
  send("1");
  seen s = claim_one(1000);
  OK(pd_mailbox_reject(box, 1, s.token, &(pd_rejection){.is_final = true, .error = "not for us"}, NULL, &err));
  is(1, PD_MAIL_DEAD);
}

static void mailbox__a_dead_letter_can_be_queued_again_with_all_its_attempts(void **state)
{
  (void)state;
  send_with((pd_mail){.attempts_max = 1});
  FAILS(pd_mailbox_requeue(box, 1, &err), PD_CONFLICT, "LetterNotDead");
  seen s = claim_one(1000);
  OK(pd_mailbox_reject(box, 1, s.token, NULL, NULL, &err));
  OK(pd_mailbox_requeue(box, 1, &err));
  s = claim_one(1000);
  assert_int_equal(s.attempts, 1);
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  FAILS(pd_mailbox_requeue(box, 1, &err), PD_CONFLICT, "LetterNotDead");
}

static void mailbox__a_long_error_is_cut_between_characters(void **state)
{
  (void)state;
  char text[PD_MAIL_ERROR_SIZE_MAX + 20];
  send("1");
  seen s = claim_one(1000);
  memset(text, 'x', sizeof text);
  memcpy(text + PD_MAIL_ERROR_SIZE_MAX - 1, "\xe2\x82\xac", 3);
  text[sizeof text - 1] = 0;
  OK(pd_mailbox_reject(box, 1, s.token, &(pd_rejection){.error = text}, NULL, &err));
  assert_int_equal(strlen(show(1).error), PD_MAIL_ERROR_SIZE_MAX - 1);
}

/* ---- order ---- */

static void mailbox__letters_are_claimed_by_priority_then_in_order(void **state)
{
  (void)state;
  static const int32_t priorities[] = {0, -1000, 5, 1000, 5, 0};
  static const uint64_t order[] = {4, 3, 5, 1, 6, 2};
  list all;
  for (size_t i = 0; i < COUNT_OF(priorities); i++) send_with((pd_mail){.priority = priorities[i]});
  claim_all(4, 1000, &all);
  for (size_t i = 0; i < 4; i++) assert_int_equal(all.items[i].number, order[i]);
  claim_all(10, 1000, &all);
  assert_int_equal(all.count, 2);
  assert_int_equal(all.items[0].number, 6);
  assert_int_equal(all.items[1].number, 2);
  assert_int_equal(all.items[1].priority, -1000);
}

static void mailbox__a_letter_is_not_claimed_before_its_time(void **state)
{
  (void)state;
  list all;
  send_with((pd_mail){.not_before_ms = now + 500, .priority = 9});
  send("2");
  assert_int_equal(claim_one(1000).number, 2);
  assert_int_equal(claim_all(1, 1000, &all).next_due_ms, now + 500);
  now += 500;
  assert_int_equal(claim_one(1000).number, 1);
  assert_int_equal(claim_all(1, 1000, &all).next_due_ms, now + 500); /* the other's lease */
}

static void mailbox__an_empty_mailbox_gives_nothing_and_has_no_ref(void **state)
{
  (void)state;
  list all = {0};
  pd_commit commit;
  pd_mailbox_counts counts;
  uint64_t count = 7;
  assert_int_equal(claim_all(1, 1000, &all).next_due_ms, INT64_MAX);
  OK(pd_mailbox_list(box, NULL, keep, &all, &err));
  assert_int_equal(all.count, 0);
  OK(pd_mailbox_count(box, &counts, &err));
  assert_int_equal(counts.queued, 0);
  OK(pd_mailbox_interrupt(box, &count, &err));
  assert_int_equal(count, 0);
  OK(pd_mailbox_purge(box, now, true, false, &count, &err));
  FAILS(pd_resolve(store, "mailbox/t.1", &commit, &err), PD_NOT_FOUND, "NotFound");
  FAILS(pd_mailbox_show(box, 1, keep, &all, &err), PD_NOT_FOUND, "LetterNotFound");
  FAILS(pd_mailbox_cancel(box, 1, &err), PD_NOT_FOUND, "LetterNotFound");
  FAILS(pd_mailbox_accept(box, 1, "00000000000000000000000000000000", &err), PD_NOT_FOUND, "LetterNotFound");
  assert_int_equal(pd_mailbox_remove(box, &err), PD_NOT_FOUND);
}

/* ---- dedupe keys ---- */

static void mailbox__a_dedupe_key_stands_for_the_first_letter_whatever_became_of_it(void **state)
{
  (void)state;
  pd_mail mail = {.body = pd_text("1"), .dedupe_key = "order-7"};
  pd_mail_sent sent;
  list all = {0};
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_false(sent.is_duplicate);
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_true(sent.is_duplicate && sent.number == 1 && sent.status == PD_MAIL_QUEUED);
  seen s = claim_one(1000);
  OK(pd_mailbox_accept(box, 1, s.token, &err));
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_true(sent.is_duplicate && sent.number == 1 && sent.status == PD_MAIL_ACCEPTED);
  mail.dedupe_key = "order-8";
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_true(!sent.is_duplicate && sent.number == 2);
  OK(pd_mailbox_list(box, NULL, keep, &all, &err));
  assert_int_equal(all.count, 2);
}

static void mailbox__a_duplicate_interrupt_supersedes_nothing(void **state)
{
  (void)state;
  pd_mail mail = {.body = pd_text("1"), .dedupe_key = "stop-1", .is_interrupt = true};
  pd_mail_sent sent;
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  send("2");
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_true(sent.is_duplicate && sent.superseded == 0);
  is(2, PD_MAIL_QUEUED);
  is(1, PD_MAIL_QUEUED);
}

static void mailbox__a_dedupe_key_is_free_when_its_letter_is_no_longer_kept(void **state)
{
  (void)state;
  pd_mail mail = {.body = pd_text("1"), .dedupe_key = "daily"};
  pd_mail_sent sent;
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  OK(pd_mailbox_cancel(box, 1, &err));
  now += 60000;
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_true(sent.is_duplicate); /* kept for exactly keep_ms */
  now += 1;
  OK(pd_mailbox_send(box, &mail, &sent, &err));
  assert_true(!sent.is_duplicate && sent.number == 2);
  list all = {0};
  OK(pd_mailbox_list(box, NULL, keep, &all, &err));
  assert_int_equal(all.count, 1);
}

/* ---- interrupts and cancelling ---- */

static void mailbox__an_interrupt_supersedes_all_older_letters_also_claimed_ones(void **state)
{
  (void)state;
  pd_mail_sent sent;
  for (int i = 0; i < 4; i++) send("1");
  seen claimed = claim_one(1000), accepted = claim_one(1000);
  OK(pd_mailbox_accept(box, accepted.number, accepted.token, &err));
  pd_mail stop = {.body = pd_text("\"stop\""), .is_interrupt = true};
  OK(pd_mailbox_send(box, &stop, &sent, &err));
  assert_int_equal(sent.number, 5);
  assert_int_equal(sent.superseded, 3);
  is(1, PD_MAIL_SUPERSEDED);
  is(2, PD_MAIL_ACCEPTED);
  is(4, PD_MAIL_SUPERSEDED);
  assert_int_equal(show(1).superseded_by, 5);
  assert_int_equal(show(1).generation, 0);
  assert_int_equal(show(5).generation, 1);
  FAILS(pd_mailbox_accept(box, 1, claimed.token, &err), PD_CONFLICT, "LetterDone");
  assert_non_null(strstr(err.message, "superseded"));
  FAILS(pd_mailbox_extend(box, 1, claimed.token, 10, &err), PD_CONFLICT, "LetterDone");
  assert_int_equal(claim_one(1000).number, 5);
  none_is_claimable();
}

static void mailbox__an_interrupt_without_a_letter_supersedes_too(void **state)
{
  (void)state;
  uint64_t count;
  send("1");
  send("1");
  OK(pd_mailbox_interrupt(box, &count, &err));
  assert_int_equal(count, 2);
  is(1, PD_MAIL_SUPERSEDED);
  none_is_claimable();
  send("1");
  assert_int_equal(show(3).generation, 1);
  assert_int_equal(claim_one(1000).number, 3);
}

static void mailbox__cancelling_keeps_a_letter_from_being_delivered(void **state)
{
  (void)state;
  send("1");
  send("1");
  seen s = claim_one(1000);
  OK(pd_mailbox_cancel(box, 1, &err));
  OK(pd_mailbox_cancel(box, 2, &err));
  OK(pd_mailbox_cancel(box, 2, &err));
  FAILS(pd_mailbox_accept(box, 1, s.token, &err), PD_CONFLICT, "LetterDone");
  FAILS(pd_mailbox_cancel(box, 9, &err), PD_NOT_FOUND, "LetterNotFound");
  none_is_claimable();
}

/* ---- looking and forgetting ---- */

static void mailbox__listing_goes_by_status_and_page(void **state)
{
  (void)state;
  list all = {0};
  pd_mailbox_counts counts;
  for (int i = 0; i < 6; i++) send("1");
  seen s = claim_one(1000);
  OK(pd_mailbox_accept(box, s.number, s.token, &err));
  claim_one(1000);
  OK(pd_mailbox_cancel(box, 6, &err));
  OK(pd_mailbox_list(box, &(pd_letter_query){.statuses = 1u << PD_MAIL_QUEUED, .limit = 2}, keep, &all, &err));
  assert_int_equal(all.count, 2);
  assert_int_equal(all.items[0].number, 3);
  all.count = 0;
  OK(pd_mailbox_list(box, &(pd_letter_query){.after = 4}, keep, &all, &err));
  assert_int_equal(all.count, 2);
  assert_int_equal(all.items[1].number, 6);
  OK(pd_mailbox_count(box, &counts, &err));
  assert_true(counts.queued == 3 && counts.claimed == 1 && counts.accepted == 1 && counts.cancelled == 1 && !counts.dead);
}

static void mailbox__purging_forgets_what_has_ended_and_counts_first_if_asked(void **state)
{
  (void)state;
  uint64_t count;
  pd_mailbox_counts counts;
  for (int i = 0; i < 4; i++) send("1");
  seen s = claim_one(1000);
  OK(pd_mailbox_reject(box, 1, s.token, &(pd_rejection){.is_final = true}, NULL, &err));
  OK(pd_mailbox_cancel(box, 2, &err));
  OK(pd_mailbox_purge(box, now, true, true, &count, &err));
  assert_int_equal(count, 0); /* not before now */
  now += 1;
  OK(pd_mailbox_purge(box, now, true, true, &count, &err));
  assert_int_equal(count, 2);
  is(2, PD_MAIL_CANCELLED);
  OK(pd_mailbox_purge(box, now, false, false, &count, &err));
  assert_int_equal(count, 1);
  is(1, PD_MAIL_DEAD);
  OK(pd_mailbox_purge(box, now, true, false, &count, &err));
  assert_int_equal(count, 1);
  OK(pd_mailbox_count(box, &counts, &err));
  assert_true(counts.queued == 2 && counts.dead == 0 && counts.cancelled == 0);
  assert_int_equal(send("1"), 5);
}

static void mailbox__dead_letters_are_not_forgotten_by_themselves(void **state)
{
  (void)state;
  send("1");
  seen s = claim_one(1000);
  OK(pd_mailbox_reject(box, 1, s.token, &(pd_rejection){.is_final = true}, NULL, &err));
  now += 10000000;
  send("2");
  is(1, PD_MAIL_DEAD);
}

static bool keep_reason(void *ctx, const pd_record *record)
{
  char *reasons = ctx;
  if (record->kind != PD_RECORD_COMMIT) return true;
  assert_string_equal(record->author, "tester");
  snprintf(reasons + strlen(reasons), 100 - strlen(reasons), "%s ", record->reason);
  return true;
}

static void mailbox__its_changes_are_commits_with_author_and_reason(void **state)
{
  (void)state;
  char reasons[100] = "";
  send("1");
  claim_one(1000);
  OK(pd_log(store, &(pd_log_query){.at = "mailbox/t.1"}, keep_reason, reasons, &err));
  assert_string_equal(reasons, "mailbox.claim mailbox.send ");
}

static void mailbox__removing_it_leaves_its_past(void **state)
{
  (void)state;
  pd_commit commit;
  char at[PD_ID_HEX_SIZE];
  pd_buf text = {0};
  send("1");
  OK(pd_resolve(store, "mailbox/t.1", &commit, &err));
  OK(pd_mailbox_remove(box, &err));
  none_is_claimable();
  OK(pd_get(store, pd_id_hex(&commit.id, at), pd_text("head"), &text, NULL, &err));
  pd_buf_done(&text);
  assert_int_equal(send("1"), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(mailbox__a_letter_is_queued_claimed_and_accepted),
    CASE(mailbox__accepting_twice_is_no_error_and_no_commit),
    CASE(mailbox__only_the_tokens_holder_can_settle_a_letter),
    CASE(mailbox__a_lease_that_ended_gives_the_letter_to_the_next),
    CASE(mailbox__a_lease_of_a_clock_a_year_ahead_ends_when_it_is_put_right),
    CASE(mailbox__a_clock_a_year_ahead_for_one_send_forgets_no_dedupe_key),
    CASE(mailbox__a_lease_that_ended_is_no_hindrance_while_nobody_else_has_the_letter),
    CASE(mailbox__extending_a_lease_keeps_the_letter),
    CASE(mailbox__a_rejected_letter_comes_again_at_its_retry_time),
    CASE(mailbox__the_pause_after_a_rejection_doubles_up_to_five_minutes),
    CASE(mailbox__the_last_attempt_makes_a_dead_letter),
    CASE(mailbox__a_letter_whose_last_lease_ended_is_a_dead_letter),
    CASE(mailbox__a_final_rejection_makes_a_dead_letter_at_once),
    CASE(mailbox__a_dead_letter_can_be_queued_again_with_all_its_attempts),
    CASE(mailbox__a_long_error_is_cut_between_characters),
    CASE(mailbox__letters_are_claimed_by_priority_then_in_order),
    CASE(mailbox__a_letter_is_not_claimed_before_its_time),
    CASE(mailbox__an_empty_mailbox_gives_nothing_and_has_no_ref),
    CASE(mailbox__a_dedupe_key_stands_for_the_first_letter_whatever_became_of_it),
    CASE(mailbox__a_duplicate_interrupt_supersedes_nothing),
    CASE(mailbox__a_dedupe_key_is_free_when_its_letter_is_no_longer_kept),
    CASE(mailbox__an_interrupt_supersedes_all_older_letters_also_claimed_ones),
    CASE(mailbox__an_interrupt_without_a_letter_supersedes_too),
    CASE(mailbox__cancelling_keeps_a_letter_from_being_delivered),
    CASE(mailbox__listing_goes_by_status_and_page),
    CASE(mailbox__purging_forgets_what_has_ended_and_counts_first_if_asked),
    CASE(mailbox__dead_letters_are_not_forgotten_by_themselves),
    CASE(mailbox__its_changes_are_commits_with_author_and_reason),
    CASE(mailbox__removing_it_leaves_its_past),
  };
  return cmocka_run_group_tests_name("thread mailbox", tests, NULL, NULL);
}
