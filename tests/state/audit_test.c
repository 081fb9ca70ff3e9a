/* audit_test.c: the audit: what is in it, that it lasts, and that nobody changes it unseen. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/audit.h"
#include "state/audit_desk.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY_MS ((int64_t)86400000)

static pd_store *open_system(world *w)
{
  pd_store *store;
  if (pd_store_open(w->uri, "system", NULL, &store, &w->err)) fail_msg("%s", w->err.message);
  return store;
}

static void put_audit(world *w, pd_store *store, const char *key, pd_bytes value)
{
  pd_note note = {.ref = PD_AUDIT_REF};
  if (pd_put(store, pd_text(key), value, &note, NULL, &w->err)) fail_msg("%s", w->err.message);
}

static void audit__every_call_is_a_line_with_who_what_when_and_outcome(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  strcpy(w.session, "s-unknown");
  get_key(&w, "plan");
  w.session[0] = 0;
  (void)world_call(&w, GET, "{\"key\":7}");
  (void)world_call(&w, "state.nothing.like.it", "{}");
  w.agent = "../x";
  get_key(&w, "a");
  w.agent = "main";
  operator_ok(&w, "audit.list", "{}");
  assert_string_equal(world_out(&w, "lines.3.agent"), "\"main\"");
  assert_string_equal(world_out(&w, "lines.3.session"), ""); /* a name that was refused as a session is none */
  assert_string_equal(world_out(&w, "lines.3.subject"), "\"plan\"");
  assert_string_equal(world_out(&w, "lines.3.outcome"), "\"SessionNotFound\"");
  assert_string_equal(world_out(&w, "lines.3.time"), "\"2026-11-15T10:00:00.000Z\"");
  assert_string_equal(world_out(&w, "lines.3.permission"), "\"autonomous\"");
  assert_int_equal(strlen(world_out(&w, "lines.3.input_hash")), 66);
  assert_string_equal(world_out(&w, "lines.2.outcome"), "\"InvalidInput\"");
  assert_string_equal(world_out(&w, "lines.1.outcome"), "\"UnknownCapability\"");
  assert_string_equal(world_out(&w, "lines.1.capability"), "\"state.nothing.like.it\"");
  assert_string_equal(world_out(&w, "lines.0.agent"), "\"../x\"");
  assert_string_equal(world_out(&w, "lines.0.seq"), "4");
  world_close(&w);
}

static void audit__values_and_other_inputs_are_never_in_it(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  (void)world_call(&w, GET, "{\"key\":\"plan\",\"value\":\"TOPSECRETWORD\"}");
  (void)world_call(&w, GET, "TOPSECRETWORD");
  (void)world_call(&w, "state.session.sett", "{\"key\":\"k\",\"value\":\"TOPSECRETWORD\"}");
  operator_ok(&w, "audit.list", "{}");
  assert_int_equal(count_of(&w, "\"seq\""), 3);
  assert_null(strstr((const char *)w.out.data, "TOPSECRETWORD"));
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK);
  w.home = NULL;
  char *command = text_of("grep -rqF TOPSECRETWORD %s", w.folder);
  assert_int_not_equal(system(command), 0);
  free(command);
  world_close(&w);
}

static void audit__an_agent_sees_its_own_lines_only(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  get_key(&w, "mine");
  w.agent = "other";
  get_key(&w, "theirs");
  world_ok(&w, "audit.list", "{\"agent\":\"other\"}");
  assert_null(strstr((const char *)w.out.data, "mine"));
  assert_non_null(strstr((const char *)w.out.data, "theirs"));
  w.agent = "main";
  operator_ok(&w, "audit.list", "{\"agent\":\"main\"}"); /* in main's name, but not by main */
  world_ok(&w, "audit.list", "{}");
  assert_int_equal(count_of(&w, "\"seq\""), 1);
  assert_non_null(strstr((const char *)w.out.data, "mine"));
  world_close(&w);
}

static void audit__list_filters_and_pages(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  char key[16];
  for (int i = 0; i < 10; i++) {
    w.agent = i % 2 ? "odd" : "even";
    snprintf(key, sizeof key, "k%d", i);
    get_key(&w, key);
    w.now_ms += 1000;
  }
  w.agent = "main";
  (void)world_call(&w, "no.such.thing", "{}");
  operator_ok(&w, "audit.list", "{\"agent\":\"odd\",\"limit\":2}");
  assert_string_equal(world_out(&w, "lines.0.subject"), "\"k9\"");
  assert_string_equal(world_out(&w, "lines.1.subject"), "\"k7\"");
  assert_string_equal(world_out(&w, "lines.2"), "");
  assert_string_equal(world_out(&w, "has_more"), "true");
  operator_ok(&w, "audit.list", "{\"agent\":\"odd\",\"limit\":3,\"before\":8}");
  assert_string_equal(world_out(&w, "lines.0.subject"), "\"k5\"");
  assert_string_equal(world_out(&w, "has_more"), "false");
  operator_ok(&w, "audit.list", "{\"since\":\"2026-11-15T10:00:07Z\",\"capability\":\"state.*.get\"}");
  assert_string_equal(world_out(&w, "lines.2.subject"), "\"k7\"");
  assert_string_equal(world_out(&w, "lines.3"), "");
  operator_ok(&w, "audit.list", "{\"capability\":\"no.*\"}");
  assert_int_equal(count_of(&w, "\"seq\""), 1);
  w.is_operator = true;
  world_fails(&w, "audit.list", "{\"since\":\"yesterday\"}", "InvalidInput", "correct");
  world_fails(&w, "audit.list", "{\"limit\":0}", "InvalidInput", "correct");
  world_fails(&w, "audit.list", "{\"agent\":\"../x\"}", "InvalidInput", "correct");
  world_close(&w);
}

static void audit__feed_shows_what_is_above_autonomous(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  get_key(&w, "quiet");
  world_fails(&w, "audit.verify", "{}", "PermissionDenied", NULL);
  operator_ok(&w, "operator.feed", "{}");
  assert_int_equal(count_of(&w, "\"seq\""), 1);
  assert_string_equal(world_out(&w, "lines.0.capability"), "\"audit.verify\"");
  assert_string_equal(world_out(&w, "lines.0.permission"), "\"operator\"");
  world_close(&w);
}

static void audit__calls_that_are_alike_share_a_line_that_counts_them(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.audit_flush_ms = 60000;
  for (int i = 0; i < 1000; i++) get_key(&w, "same"), w.now_ms++;
  get_key(&w, "other");
  w.agent = "second";
  get_key(&w, "same");
  operator_ok(&w, "audit.list", "{}");
  assert_int_equal(count_of(&w, "\"seq\""), 3);
  assert_string_equal(world_out(&w, "lines.2.count"), "1000");
  assert_string_equal(world_out(&w, "lines.2.time"), "\"2026-11-15T10:00:00.000Z\"");
  assert_string_equal(world_out(&w, "lines.2.last_time"), "\"2026-11-15T10:00:00.999Z\"");
  assert_string_equal(world_out(&w, "lines.1.count"), "");
  verify_is(&w, true);
  world_close(&w);
}

static void audit__the_order_of_members_does_not_change_the_input_hash(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  (void)world_call(&w, "audit.list", "{\"limit\":5,\"capability\":\"x\"}");
  (void)world_call(&w, "audit.list", " { \"capability\" : \"\\u0078\", \"limit\" : 5 } ");
  (void)world_call(&w, "audit.list", "{\"limit\":6,\"capability\":\"x\"}");
  operator_ok(&w, "audit.list", "{}");
  char first[80];
  snprintf(first, sizeof first, "%s", world_out(&w, "lines.2.input_hash"));
  assert_string_equal(world_out(&w, "lines.1.input_hash"), first);
  assert_string_not_equal(world_out(&w, "lines.0.input_hash"), first);
  world_close(&w);
}

/* ---- tampering ---- */

/* Three small lines in one batch, and one after it. */
static void make_lines(world *w)
{
  w->home->config.audit_flush_ms = 60000;
  for (int i = 0; i < 3; i++) get_key(w, i ? i == 1 ? "bb" : "ccc" : "a");
  assert_int_equal(pd_audit_flush(w->home, NULL), PD_OK);
  get_key(w, "last");
  assert_int_equal(pd_audit_flush(w->home, NULL), PD_OK);
}

static void audit__verify_finds_any_changed_byte_of_any_line(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  make_lines(&w);
  verify_is(&w, true);
  pd_store *store = open_system(&w);
  pd_buf batch = {0};
  char key[PD_AUDIT_KEY_SIZE];
  assert_int_equal(pd_get(store, PD_AUDIT_REF, pd_text(pd_audit_key(1, key)), &batch, NULL, &w.err), PD_OK);
  for (size_t i = 0; i < batch.size; i += 3) {
    batch.data[i] ^= i % 2 ? 0x01 : 0x20;
    put_audit(&w, store, key, pd_buf_bytes(&batch));
    operator_ok(&w, "audit.verify", "{}");
    if (strcmp(world_out(&w, "valid"), "false") != 0) fail_msg("byte %zu was changed, and nobody noticed", i);
    batch.data[i] ^= i % 2 ? 0x01 : 0x20;
  }
  put_audit(&w, store, key, pd_buf_bytes(&batch));
  verify_is(&w, true);
  pd_buf_done(&batch);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  world_close(&w);
}

static void audit__verify_finds_removed_and_added_lines(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  make_lines(&w);
  pd_store *store = open_system(&w);
  pd_note note = {.ref = PD_AUDIT_REF};
  pd_buf batch = {0};
  char key[PD_AUDIT_KEY_SIZE];
  assert_int_equal(pd_get(store, PD_AUDIT_REF, pd_text(pd_audit_key(1, key)), &batch, NULL, &w.err), PD_OK);
  assert_int_equal(pd_delete(store, pd_text(key), PD_ANY_VERSION, &note, NULL, &w.err), PD_OK);
  verify_is(&w, false);
  put_audit(&w, store, key, pd_buf_bytes(&batch));
  verify_is(&w, true);
  size_t last = batch.size - 1;
  while (batch.data[last - 1] != '\n') last--;
  put_audit(&w, store, key, (pd_bytes){batch.data, last}); /* without its last line */
  verify_is(&w, false);
  put_audit(&w, store, key, pd_buf_bytes(&batch));
  put_audit(&w, store, pd_audit_key(900, key), pd_buf_bytes(&batch));
  verify_is(&w, false);
  pd_buf_done(&batch);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  world_close(&w);
}

static void audit__verify_with_an_anchor_finds_a_chain_that_was_rewritten(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  make_lines(&w);
  operator_ok(&w, "audit.verify", "{}");
  char anchor[128], input[200];
  snprintf(anchor, sizeof anchor, "%s", world_out(&w, "anchor"));
  snprintf(input, sizeof input, "{\"anchor\":%s}", anchor);
  get_key(&w, "later");
  operator_ok(&w, "audit.verify", input);
  assert_string_equal(world_out(&w, "valid"), "true");
  pd_store *store = open_system(&w);
  assert_int_equal(pd_ref_delete(store, PD_AUDIT_REF, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  operator_ok(&w, "audit.verify", input);
  assert_string_equal(world_out(&w, "valid"), "false");
  for (int i = 0; i < 20; i++) get_key(&w, "new"), assert_int_equal(pd_audit_flush(w.home, NULL), PD_OK);
  verify_is(&w, true); /* a sound chain, but not the one of the anchor */
  operator_ok(&w, "audit.verify", input);
  assert_string_equal(world_out(&w, "valid"), "false");
  w.is_operator = true;
  world_fails(&w, "audit.verify", "{\"anchor\":\"5\"}", "InvalidInput", "correct");
  world_fails(&w, "audit.verify", "{\"anchor\":\"0:00\"}", "InvalidInput", "correct");
  world_close(&w);
}

static void read_all(const char *path, pd_buf *out)
{
  char part[65536];
  ssize_t got;
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0);
  while ((got = read(fd, part, sizeof part)) > 0) assert_int_equal(pd_buf_append(out, part, (size_t)got, NULL), PD_OK);
  close(fd);
}

static void flip(const char *path, size_t at)
{
  uint8_t byte;
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
  byte ^= 0x01;
  assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
  close(fd);
}

static void audit__verify_finds_a_byte_changed_in_the_database_file(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  make_lines(&w);
  world_restart(&w);
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK);
  w.home = NULL;
  pd_buf file = {0};
  char *path = text_of("%s/system.db", w.folder);
  read_all(path, &file);
  size_t found = 0;
  for (size_t at = 0; at + 200 < file.size; at++) {
    if (memcmp(file.data + at, "\"capability\":\"state.session.get\"", 32) != 0) continue;
    found++;
    for (size_t i = 0; i < 200; i += 23) { /* into the line's subject and hash */
      flip(path, at + i);
      world_restart(&w);
      w.is_operator = true;
      pd_code code = world_call(&w, "audit.verify", "{}");
      if (code == PD_OK && strcmp(world_out(&w, "valid"), "false") != 0) fail_msg("byte %zu of the file was changed unseen", at + i);
      assert_int_equal(pd_home_close(w.home, NULL), PD_OK);
      w.home = NULL;
      int fd = open(path, O_WRONLY | O_TRUNC); /* the verification has been audited too: back to how it was */
      assert_int_equal(write(fd, file.data, file.size), (ssize_t)file.size);
      close(fd);
      char *rest = text_of("rm -f %s-wal %s-shm", path, path);
      assert_int_equal(system(rest), 0);
      free(rest);
    }
  }
  assert_true(found >= 4);
  world_restart(&w);
  verify_is(&w, true);
  pd_buf_done(&file);
  free(path);
  world_close(&w);
}

/* ---- lasting ---- */

static void child_calls(world *w, uint64_t flush_ms, int out, int count)
{
  pd_home *home;
  pd_buf answer = {0};
  if (pd_home_open(w->uri, NULL, &home, &w->err)) _exit(1);
  home->config.audit_flush_ms = flush_ms;
  pd_ctx ctx = {.home = home, .agent = "child"};
  for (int i = 0; i < count; i++) {
    char input[64];
    snprintf(input, sizeof input, "{\"key\":\"%d-%d\"}", (int)getpid(), i);
    if (pd_call(&ctx, GET, pd_text(input), &answer, NULL) == PD_OK) _exit(2);
    if (write(out, "x", 1) != 1) _exit(3);
  }
  if (count < 1000000) {
    pd_buf_done(&answer);
    _exit(pd_home_close(home, NULL) == PD_OK ? 0 : 4);
  }
}

static pid_t start_child(world *w, uint64_t flush_ms, int count, int *out_pipe)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    close(ends[0]);
    child_calls(w, flush_ms, ends[1], count);
    _exit(5);
  }
  close(ends[1]);
  *out_pipe = ends[0];
  return pid;
}

static void close_home(world *w)
{
  assert_int_equal(pd_home_close(w->home, &w->err), PD_OK);
  w->home = NULL;
}

static void audit__what_was_answered_with_flush_0_survives_kill_9(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  close_home(&w);
  int out;
  char byte[64];
  size_t answered = 0;
  pid_t pid = start_child(&w, 0, 1000000, &out);
  while (answered < 40) {
    ssize_t got = read(out, byte, 1);
    assert_int_equal(got, 1);
    answered++;
  }
  kill(pid, SIGKILL);
  ssize_t got;
  while ((got = read(out, byte, sizeof byte)) > 0) answered += (size_t)got;
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  close(out);
  world_restart(&w);
  operator_ok(&w, "audit.list", "{\"agent\":\"child\",\"limit\":1000}");
  assert_true(count_of(&w, "\"seq\"") >= (answered < 1000 ? answered : 1000)); /* a page */
  verify_is(&w, true);
  world_close(&w);
}

static void audit__lines_are_written_without_another_call_or_a_close(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  pd_store *store = open_system(&w);
  pd_watch *watch;
  pd_watch_event event;
  pd_watch_options options = {.prefix = pd_text(PD_AUDIT_BATCH), .from = {.seq = 1}};
  assert_int_equal(pd_watch_open(store, &options, &watch, &w.err), PD_OK);
  get_key(&w, "alone");
  pd_code code;
  do code = pd_watch_next(watch, 60000, &event, &w.err);
  while (code == PD_OK && event.kind != PD_WATCH_PUT);
  assert_int_equal(code, PD_OK);
  pd_watch_close(watch);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  world_close(&w);
}

static void audit__processes_that_write_at_once_keep_one_chain(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  close_home(&w);
  int outs[3], status;
  pid_t pids[3];
  for (size_t i = 0; i < COUNT_OF(pids); i++) pids[i] = start_child(&w, i ? 0 : 1, 60, &outs[i]);
  for (size_t i = 0; i < COUNT_OF(pids); i++) {
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_int_equal(status, 0);
    close(outs[i]);
  }
  world_restart(&w);
  operator_ok(&w, "audit.list", "{\"limit\":1000}");
  assert_int_equal(count_of(&w, "\"seq\""), 180);
  verify_is(&w, true);
  assert_string_equal(world_out(&w, "first"), "1");
  world_close(&w);
}

static void audit__old_batches_go_after_audit_keep_and_the_chain_still_verifies(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.audit_keep_days = 2;
  w.home->config.audit_flush_ms = 0;
  for (int day = 0; day < 5; day++) {
    get_key(&w, "a");
    get_key(&w, "b");
    w.now_ms += DAY_MS;
  }
  verify_is(&w, true);
  assert_string_not_equal(world_out(&w, "removed"), "0");
  operator_ok(&w, "audit.list", "{}");
  assert_null(strstr((const char *)w.out.data, "\"2026-11-15T"));
  assert_non_null(strstr((const char *)w.out.data, "\"2026-11-18T"));
  operator_ok(&w, "audit.list", "{\"capability\":\"audit.expire\"}");
  assert_non_null(strstr((const char *)w.out.data, "\"lines 1 to 2\""));
  world_restart(&w);
  verify_is(&w, true);
  world_close(&w);
}

static void audit__a_clock_a_year_ahead_for_one_call_removes_nothing_and_keeps_nothing_too_long(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.audit_keep_days = 30;
  w.home->config.audit_flush_ms = 0;
  get_key(&w, "before");
  w.now_ms += 5 * 60000;
  get_key(&w, "before");
  w.now_ms += 365 * DAY_MS;
  get_key(&w, "during");
  w.now_ms -= 365 * DAY_MS;
  w.now_ms += 5 * 60000;
  get_key(&w, "after");
  w.now_ms += 5 * 60000;
  get_key(&w, "after");
  verify_is(&w, true);
  assert_string_equal(world_out(&w, "removed"), "0");
  for (int i = 0; i < 3; i++) {
    w.now_ms += 31 * DAY_MS;
    get_key(&w, "later");
    w.now_ms += 5 * 60000;
    get_key(&w, "later");
  }
  verify_is(&w, true);
  operator_ok(&w, "audit.list", "{}");
  assert_null(strstr((const char *)w.out.data, "\"2026-11-15T"));
  assert_null(strstr((const char *)w.out.data, "\"time\":\"2027-11-15T10:05")); /* what was dated wrongly went with the others */
  world_close(&w);
}

/* ---- failures ---- */

/* The newest lines that fit, page by page. */
static void find_first(world *w, const char *filter)
{
  char input[128];
  snprintf(input, sizeof input, "{%s}", filter);
  operator_ok(w, "audit.list", input);
  while (strcmp(world_out(w, "lines"), "[]") == 0 && strcmp(world_out(w, "has_more"), "true") == 0) {
    snprintf(input, sizeof input, "{%s,\"before\":%llu}", filter, strtoull(world_out(w, "next_before"), NULL, 10));
    operator_ok(w, "audit.list", input);
  }
}

static void audit__a_write_that_fails_fails_no_call_and_is_made_up_for(void **state)
{
  (void)state;
  world w;
  pd_audit_status status;
  pd_buf head = {0};
  world_open(&w, NULL);
  w.home->config.audit_flush_ms = 0;
  get_key(&w, "before");
  pd_store *store = open_system(&w);
  assert_int_equal(pd_get(store, PD_AUDIT_REF, pd_text(PD_AUDIT_HEAD), &head, NULL, &w.err), PD_OK);
  put_audit(&w, store, PD_AUDIT_HEAD, pd_text("{}"));
  world_fails(&w, GET, "{\"key\":\"during\"}", "SessionNotFound", NULL);
  pd_audit_status_get(w.home, &status);
  assert_true(status.is_failing);
  assert_non_null(strstr(status.message, "head"));
  w.home->config.audit_flush_ms = 60000;
  for (int i = 0; i < 3 * PD_AUDIT_LINES_MAX; i++) {
    pd_audit_entry entry = {.agent = "flood", .session = "", .capability = "x", .outcome = "ok", .approval = "", .time_ms = w.now_ms};
    memcpy(entry.input_hash.bytes, &i, sizeof i);
    pd_audit_add(w.home, &entry);
  }
  pd_audit_status_get(w.home, &status);
  assert_true(status.lost > PD_AUDIT_LINES_MAX);
  operator_ok(&w, "system.health", "{}");
  assert_non_null(strstr(world_out(&w, "reasons"), "the audit cannot be written"));
  assert_non_null(strstr(world_out(&w, "reasons"), "lines of the audit were lost"));
  put_audit(&w, store, PD_AUDIT_HEAD, pd_buf_bytes(&head));
  assert_int_equal(pd_audit_flush(w.home, &w.err), PD_OK);
  pd_audit_status_get(w.home, &status);
  assert_false(status.is_failing);
  find_first(&w, "\"agent\":\"main\"");
  assert_string_equal(world_out(&w, "lines.0.subject"), "\"during\"");
  find_first(&w, "\"capability\":\"audit.lost\"");
  char lost[32];
  snprintf(lost, sizeof lost, "%llu", (unsigned long long)status.lost);
  assert_string_equal(world_out(&w, "lines.0.count"), lost);
  verify_is(&w, true);
  pd_buf_done(&head);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(audit__every_call_is_a_line_with_who_what_when_and_outcome),
    cmocka_unit_test(audit__values_and_other_inputs_are_never_in_it),
    cmocka_unit_test(audit__an_agent_sees_its_own_lines_only),
    cmocka_unit_test(audit__list_filters_and_pages),
    cmocka_unit_test(audit__feed_shows_what_is_above_autonomous),
    cmocka_unit_test(audit__calls_that_are_alike_share_a_line_that_counts_them),
    cmocka_unit_test(audit__the_order_of_members_does_not_change_the_input_hash),
    cmocka_unit_test(audit__verify_finds_any_changed_byte_of_any_line),
    cmocka_unit_test(audit__verify_finds_removed_and_added_lines),
    cmocka_unit_test(audit__verify_with_an_anchor_finds_a_chain_that_was_rewritten),
    cmocka_unit_test(audit__verify_finds_a_byte_changed_in_the_database_file),
    cmocka_unit_test(audit__what_was_answered_with_flush_0_survives_kill_9),
    cmocka_unit_test(audit__lines_are_written_without_another_call_or_a_close),
    cmocka_unit_test(audit__processes_that_write_at_once_keep_one_chain),
    cmocka_unit_test(audit__old_batches_go_after_audit_keep_and_the_chain_still_verifies),
    cmocka_unit_test(audit__a_clock_a_year_ahead_for_one_call_removes_nothing_and_keeps_nothing_too_long),
    cmocka_unit_test(audit__a_write_that_fails_fails_no_call_and_is_made_up_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
