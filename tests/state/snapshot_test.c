/* snapshot_test.c: state.snapshot.create, list and load. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/home.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static pd_store *open_store(world *w, const char *agent)
{
  pd_store *s = NULL;
  if (pd_store_open(w->uri, agent, NULL, &s, &w->err)) fail_msg("%s", w->err.message);
  return s;
}

static void put(world *w, const char *agent, const char *key, const char *value)
{
  pd_store *s = open_store(w, agent);
  if (pd_put(s, pd_text(key), pd_text(value), NULL, NULL, &w->err)) fail_msg("%s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

static char *file_of(world *w, const char *name)
{
  return text_of("%s/snapshots/%s", w->folder, name);
}

static bool has_tag(world *w, const char *agent, const char *name)
{
  pd_store *s = open_store(w, agent);
  pd_commit commit;
  bool has = pd_resolve(s, name, &commit, NULL) == PD_OK;
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  return has;
}

static void write_file(const char *path, const char *text)
{
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

/* ---- create ---- */

static void snapshot_create__out_snapshot_id__names_the_second(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z\"");
  w.now_ms += 999;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-2\"");
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-3\"");
  w.now_ms++;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100001Z\"");
  world_close(&w);
}

static int64_t frozen(void *ctx)
{
  (void)ctx;
  return 1794736800000;
}

static void snapshot_create__out_snapshot_id__is_unique_within_a_second_across_processes(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK); /* no thread of ours holds a lock at the fork */
  pid_t children[3];
  for (int i = 0; i < 3; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i] == 0) {
      pd_home *home = NULL;
      pd_buf out = {0};
      pd_home_options options = {.now_ms = frozen};
      bool is_ok = pd_home_open(w.uri, &options, &home, NULL) == PD_OK;
      pd_ctx ctx = {.home = home, .agent = "main"};
      for (int n = 0; is_ok && n < 8; n++) is_ok = pd_call(&ctx, "state.snapshot.create", pd_text("{}"), &out, NULL) == PD_OK;
      _exit(is_ok && pd_home_close(home, NULL) == PD_OK ? 0 : 1);
    }
  }
  for (int i = 0; i < 3; i++) {
    int status = -1;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(pd_home_open(w.uri, NULL, &w.home, &w.err), PD_OK);
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal(world_out(&w, "count"), "25");
  assert_string_equal(world_out(&w, "skipped"), "[]");
  assert_string_equal(world_out(&w, "snapshots.0.snapshot_id"), "\"snap-20261115T100000Z-25\"");
  assert_string_equal(world_out(&w, "snapshots.24.snapshot_id"), "\"snap-20261115T100000Z\"");
  world_close(&w);
}

static void snapshot_create__out_timestamp__is_when_it_was_taken(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.now_ms += 1234;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "timestamp"), "\"2026-11-15T10:00:01.234Z\"");
  world_close(&w);
}

static void snapshot_create__out_size_bytes__is_that_of_the_file(void **state)
{
  (void)state;
  world w;
  struct stat st;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  char *path = file_of(&w, "snap-20261115T100000Z.json");
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(strtoll(world_out(&w, "size_bytes"), NULL, 10), st.st_size);
  free(path);
  world_close(&w);
}

static void snapshot_create__out_removed_count__is_what_went_beyond_snapshot_keep(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[test.snapshot]\nkeep = 3\n");
  for (int i = 0; i < 5; i++, w.now_ms += 1000) {
    world_ok(&w, "state.snapshot.create", "{}");
    assert_string_equal(world_out(&w, "removed_count"), i < 3 ? "0" : "1");
  }
  w.home->config.snapshot_keep = 1;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "removed_count"), "3");
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal(world_out(&w, "count"), "1");
  world_close(&w);
}

static void snapshot_create__effect_1__creates_a_private_json_file(void **state)
{
  (void)state;
  world w;
  struct stat st;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  char *path = file_of(&w, "snap-20261115T100000Z.json"), *folder = file_of(&w, "");
  assert_int_equal(lstat(path, &st), 0);
  assert_int_equal(st.st_mode, S_IFREG | 0600);
  assert_int_equal(lstat(folder, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  char *part = file_of(&w, ".snap-20261115T100000Z.json.part");
  assert_int_equal(access(part, F_OK), -1);
  free(part);
  free(path);
  free(folder);
  world_close(&w);
}

static void snapshot_create__effect_2__the_oldest_go_with_their_tags(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "1");
  for (int i = 0; i < 52; i++, w.now_ms += 1000) world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "removed_count"), "1");
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal(world_out(&w, "count"), "50");
  assert_string_equal(world_out(&w, "snapshots.49.snapshot_id"), "\"snap-20261115T100002Z\"");
  assert_false(has_tag(&w, "ada", "snapshot/snap-20261115T100001Z"));
  assert_true(has_tag(&w, "ada", "snapshot/snap-20261115T100002Z"));
  assert_true(has_tag(&w, "ada", "snapshot/snap-20261115T100051Z"));
  world_close(&w);
}

static void snapshot_create__tags_of_snapshots_removed_by_hand_go_and_others_tags_stay(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "1");
  pd_store *s = open_store(&w, "ada");
  assert_int_equal(pd_tag_set(s, "snapshot/mine", "main", false, NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_ok(&w, "state.snapshot.create", "{}");
  char *path = file_of(&w, "snap-20261115T100000Z.json");
  assert_int_equal(unlink(path), 0);
  free(path);
  w.now_ms += 1000;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_false(has_tag(&w, "ada", "snapshot/snap-20261115T100000Z"));
  assert_true(has_tag(&w, "ada", "snapshot/snap-20261115T100001Z"));
  assert_true(has_tag(&w, "ada", "snapshot/mine"));
  world_close(&w);
}

/* The state that it names can be read after gc has taken everything else. */
static void snapshot_create__what_it_names_survives_gc(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "\"before\"");
  world_ok(&w, "state.snapshot.create", "{}");
  pd_store *s = open_store(&w, "ada");
  for (int i = 0; i < 20; i++) {
    char value[16];
    snprintf(value, sizeof value, "%d", i);
    assert_int_equal(pd_put(s, pd_text("k"), pd_text(value), NULL, NULL, &w.err), PD_OK);
  }
  pd_gc_policy policy = {.keep_last = 1};
  if (pd_gc(s, &policy, NULL, &w.err)) fail_msg("%s", w.err.message);
  pd_buf value = {0};
  if (pd_get(s, "snapshot/snap-20261115T100000Z", pd_text("k"), &value, NULL, &w.err)) fail_msg("%s", w.err.message);
  assert_true(pd_bytes_equal(pd_buf_bytes(&value), pd_text("\"before\"")));
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  world_close(&w);
}

static void snapshot_create__err_IoError__for_folders_that_are_none(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "1");
  char *folder = text_of("%s/snapshots", w.folder), *elsewhere = text_of("%s/elsewhere", w.folder);
  write_file(folder, "a file");
  world_fails(&w, "state.snapshot.create", "{}", "IoError", "check_disk");
  assert_int_equal(unlink(folder), 0);
  assert_int_equal(mkdir(elsewhere, 0700), 0);
  assert_int_equal(symlink(elsewhere, folder), 0);
  world_fails(&w, "state.snapshot.create", "{}", "IoError", "check_disk");
  assert_non_null(strstr(w.err.message, "symbolic link"));
  assert_int_equal(unlink(folder), 0);
  assert_int_equal(rmdir(elsewhere), 0); /* nothing was written there */
  assert_false(has_tag(&w, "ada", "snapshot/snap-20261115T100000Z"));
  world_ok(&w, "state.snapshot.create", "{}");
  free(folder);
  free(elsewhere);
  world_close(&w);
}

/* A folder that cannot be written: as root, nobody else's rights count, so the test becomes somebody else for the call. */
static void snapshot_create__err_IoError__for_a_folder_that_cannot_be_written(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "1");
  world_ok(&w, "state.snapshot.create", "{}");
  char *folder = file_of(&w, "");
  bool is_root = geteuid() == 0;
  assert_int_equal(chmod(folder, 0500), 0);
  if (is_root) {
    char *all = text_of("chown -R 65534 %s", w.folder);
    assert_int_equal(system(all), 0);
    free(all);
    assert_int_equal(seteuid(65534), 0);
  }
  w.now_ms += 1000;
  pd_code code = world_call(&w, "state.snapshot.create", "{}");
  char *answer = strdup(world_out(&w, "error.code"));
  if (is_root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(chmod(folder, 0700), 0);
  assert_int_not_equal(code, PD_OK);
  assert_string_equal(answer, "\"IoError\"");
  free(answer);
  free(folder);
  assert_false(has_tag(&w, "ada", "snapshot/snap-20261115T100001Z"));
  world_close(&w);
}

/* Two writers that move money to and fro between two stores: the sum at one instant is always the same. */
static void snapshot_create__out_at_one_instant__is_true_only_of_states_of_one_moment(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "n", "0");
  put(&w, "bob", "n", "0");
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK); /* no thread of ours holds a lock at the fork */
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if the test fails */
    struct timespec pause = {.tv_nsec = 1000000};
    pd_store *a = NULL, *b = NULL; /* ada counts first, then bob: at any instant ada is at most one ahead, never behind */
    if (pd_store_open(w.uri, "ada", NULL, &a, NULL) || pd_store_open(w.uri, "bob", NULL, &b, NULL)) _exit(1);
    for (int i = 1; i < 1000000; i++) {
      char value[16];
      snprintf(value, sizeof value, "%d", i);
      if (pd_put(a, pd_text("n"), pd_text(value), NULL, NULL, NULL) || pd_put(b, pd_text("n"), pd_text(value), NULL, NULL, NULL)) _exit(1);
      nanosleep(&pause, NULL); /* else there is no instant without a write */
    }
    _exit(0);
  }
  assert_int_equal(pd_home_open(w.uri, NULL, &w.home, &w.err), PD_OK);
  world_restart(&w); /* with the test's clock */
  int checked = 0;
  for (int i = 0; i < 20 || (i < 500 && !checked); i++) {
    w.now_ms += 1000;
    world_ok(&w, "state.snapshot.create", "{}");
    if (strcmp(world_out(&w, "at_one_instant"), "true") != 0) continue; /* it says so: that is allowed */
    char id[64], tag[80];
    snprintf(id, sizeof id, "%s", world_out(&w, "snapshot_id") + 1);
    id[strlen(id) - 1] = 0;
    snprintf(tag, sizeof tag, "snapshot/%s", id);
    long values[2];
    for (int k = 0; k < 2; k++) {
      pd_store *s = open_store(&w, k ? "bob" : "ada");
      pd_buf value = {0};
      if (pd_get(s, tag, pd_text("n"), &value, NULL, &w.err)) fail_msg("%s", w.err.message);
      assert_int_equal(pd_buf_byte(&value, 0, NULL), PD_OK);
      values[k] = strtol((const char *)value.data, NULL, 10);
      pd_buf_done(&value);
      assert_int_equal(pd_store_close(s, &w.err), PD_OK);
    }
    if (values[0] != values[1] && values[0] != values[1] + 1) fail_msg("ada is at %ld, bob at %ld", values[0], values[1]);
    checked++;
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_true(checked > 0);
  world_close(&w);
}

/* ---- list ---- */

/* A caller that is asked whether to go on, and meanwhile writes, or leaves. */
typedef struct asked {
  world *w;
  unsigned count, leaves_at; /* 0: it stays */
  pd_store *store;           /* NULL: it does not write */
} asked;

static bool answer_asked(void *ctx, uint64_t done, uint64_t total)
{
  asked *a = ctx;
  char value[16];
  (void)done, (void)total;
  snprintf(value, sizeof value, "%u", ++a->count);
  if (a->store) assert_int_equal(pd_put(a->store, pd_text("n"), pd_text(value), NULL, NULL, NULL), PD_OK);
  return a->count != a->leaves_at;
}

static pd_code create_asked(asked *a, char out[4096])
{
  pd_ctx ctx = {.home = a->w->home, .agent = "main", .progress = answer_asked, .progress_ctx = a};
  pd_buf answer = {0};
  pd_code code = pd_call(&ctx, "state.snapshot.create", pd_text("{}"), &answer, &a->w->err);
  snprintf(out, 4096, "%.*s", (int)answer.size, (const char *)answer.data);
  pd_buf_done(&answer);
  return code;
}

static void snapshot_create__with_a_writer_that_never_rests_ends_and_says_so(void **state)
{
  (void)state;
  world w;
  char out[4096];
  world_open(&w, NULL);
  for (int i = 0; i < 5; i++) {
    char agent[16];
    snprintf(agent, sizeof agent, "agent%d", i);
    put(&w, agent, "n", "0");
  }
  asked a = {.w = &w, .store = open_store(&w, "agent0")};
  assert_int_equal(create_asked(&a, out), PD_OK);
  assert_non_null(strstr(out, "\"at_one_instant\":false"));
  assert_in_range(a.count, 1, 40); /* a few rounds over a few stores */
  assert_true(has_tag(&w, "agent4", "snapshot/snap-20261115T100000Z"));
  assert_true(has_tag(&w, "agent0", "snapshot/snap-20261115T100000Z"));
  assert_int_equal(pd_store_close(a.store, &w.err), PD_OK);
  world_close(&w);
}

static void snapshot_create__stops_when_its_caller_leaves_and_leaves_nothing(void **state)
{
  (void)state;
  for (unsigned n = 1;; n++) {
    world w;
    char out[4096];
    world_open(&w, NULL);
    put(&w, "ada", "n", "0");
    put(&w, "bob", "n", "0");
    asked a = {.w = &w, .leaves_at = n};
    pd_code code = create_asked(&a, out);
    if (code) assert_non_null(strstr(out, "Cancelled"));
    assert_int_equal(has_tag(&w, "ada", "snapshot/snap-20261115T100000Z"), !code);
    world_ok(&w, "state.snapshot.list", "{}");
    world_want(&w, "count", code ? "0" : "1");
    world_want(&w, "skipped", "[]");
    world_close(&w);
    if (!code) {
      assert_true(n > 4); /* it was asked before each store, in each round */
      return;
    }
  }
}

static void snapshot_list__out_snapshots__is_empty_where_there_are_none(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal((const char *)w.out.data, "{\"snapshots\":[],\"count\":0,\"skipped\":[]}");
  char *folder = text_of("%s/snapshots", w.folder);
  assert_int_equal(access(folder, F_OK), -1); /* looking makes nothing */
  free(folder);
  world_close(&w);
}

static void snapshot_list__out_count__newest_first_over_seconds_and_numbers(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  for (int i = 0; i < 12; i++) world_ok(&w, "state.snapshot.create", "{}");
  w.now_ms += 86400000;
  world_ok(&w, "state.snapshot.create", "{}");
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal(world_out(&w, "count"), "13");
  assert_string_equal(world_out(&w, "snapshots.0.snapshot_id"), "\"snap-20261116T100000Z\"");
  assert_string_equal(world_out(&w, "snapshots.0.timestamp"), "\"2026-11-16T10:00:00.000Z\"");
  assert_string_equal(world_out(&w, "snapshots.1.snapshot_id"), "\"snap-20261115T100000Z-12\"");
  assert_string_equal(world_out(&w, "snapshots.11.snapshot_id"), "\"snap-20261115T100000Z-2\"");
  assert_string_equal(world_out(&w, "snapshots.12.snapshot_id"), "\"snap-20261115T100000Z\"");
  world_close(&w);
}

static void damage(const char *path, off_t at)
{
  char byte;
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
  byte ^= 1;
  assert_true(pwrite(fd, &byte, 1, at) == 1);
  close(fd);
}

static void snapshot_list__out_skipped__tells_damaged_and_foreign_files(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  for (int i = 0; i < 5; i++) world_ok(&w, "state.snapshot.create", "{}");
  char *one = file_of(&w, "snap-20261115T100000Z.json"), *two = file_of(&w, "snap-20261115T100000Z-2.json");
  char *three = file_of(&w, "snap-20261115T100000Z-3.json"), *four = file_of(&w, "snap-20261115T100000Z-4.json");
  char *notes = file_of(&w, "notes.txt"), *odd = file_of(&w, "snap-2026.json"), *link = file_of(&w, "snap-20261115T110000Z.json");
  damage(one, 100);
  assert_int_equal(truncate(two, 300), 0);
  write_file(three, "");
  assert_int_equal(unlink(four), 0);
  assert_int_equal(mkdir(four, 0700), 0);
  write_file(notes, "mine");
  write_file(odd, "{}");
  assert_int_equal(symlink("snap-20261115T100000Z-5.json", link), 0);
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal(world_out(&w, "count"), "1");
  assert_string_equal(world_out(&w, "snapshots.0.snapshot_id"), "\"snap-20261115T100000Z-5\"");
  assert_non_null(strstr((const char *)w.out.data, "{\"file\":\"notes.txt\",\"reason\":\"it is no snapshot\"}"));
  assert_non_null(strstr((const char *)w.out.data, "{\"file\":\"snap-20261115T100000Z.json\",\"reason\":\"it is damaged"));
  assert_non_null(strstr((const char *)w.out.data, "\"snap-20261115T110000Z.json\",\"reason\":\"it is a symbolic link"));
  assert_string_not_equal(world_out(&w, "skipped.6"), "");
  assert_string_equal(world_out(&w, "skipped.7"), "");
  world_fails(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T100000Z\"}", "IoError", NULL);
  world_fails(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T110000Z\"}", "IoError", NULL);
  char *paths[] = {one, two, three, four, notes, odd, link};
  for (size_t i = 0; i < COUNT_OF(paths); i++) free(paths[i]);
  world_close(&w);
}

static void snapshot_list__err_IoError__for_folders_that_are_none(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  char *folder = text_of("%s/snapshots", w.folder);
  write_file(folder, "a file");
  world_fails(&w, "state.snapshot.list", "{}", "IoError", "check_disk");
  assert_non_null(strstr(w.err.message, folder));
  assert_int_equal(unlink(folder), 0);
  assert_int_equal(symlink(w.folder, folder), 0);
  world_fails(&w, "state.snapshot.list", "{}", "IoError", "check_disk");
  assert_non_null(strstr(w.err.message, "symbolic link"));
  assert_int_equal(unlink(folder), 0);
  world_ok(&w, "state.snapshot.list", "{}");
  free(folder);
  world_close(&w);
}

/* ---- load ---- */

static void snapshot_load__out_snapshot__tells_agents_resources_approvals_alerts_health_and_state(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "secret.key", "\"secret value\"");
  put(&w, "ada", "secret.key", "\"secret valu2\"");
  put(&w, "bob", "k", "1");
  world_begin_session(&w);
  world_ok(&w, "alerts.send", "{\"severity\":\"error\",\"title\":\"private title\",\"message\":\"private\"}");
  put(&w, "system", "approvals:pending",
      "[{\"id\":\"apr-1\",\"agent\":\"ada\",\"capability\":\"state.backup.create\",\"input\":{\"agent\":\"secret\"},\"status\":\"pending\"}"
      "]");
  world_ok(&w, "state.snapshot.create", "{}");
  w.session[0] = 0;
  pd_store *s = open_store(&w, "ada");
  pd_commit head;
  char hex[PD_ID_HEX_SIZE], quoted[80];
  assert_int_equal(pd_resolve(s, "main", &head, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  snprintf(quoted, sizeof quoted, "\"%s\"", pd_id_hex(&head.id, hex));
  w.is_operator = true; /* what an agent sees of it: snapshot_view_test.c */
  world_ok(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  assert_string_equal(world_out(&w, "snapshot.snapshot_id"), "\"snap-20261115T100000Z\"");
  assert_string_equal(world_out(&w, "snapshot.timestamp"), "\"2026-11-15T10:00:00.000Z\"");
  assert_string_equal(world_out(&w, "snapshot.agents.0"), "{\"name\":\"ada\",\"is_active\":false,\"sessions\":0,\"last_activity\":null}");
  assert_string_equal(world_out(&w, "snapshot.agents.2"),
                      "{\"name\":\"main\",\"is_active\":true,\"sessions\":1,\"last_activity\":\"2026-11-15T10:00:00.000Z\"}");
  assert_string_equal(world_out(&w, "snapshot.approvals.count"), "1");
  assert_string_equal(world_out(&w, "snapshot.approvals.pending.0.capability"), "\"state.backup.create\"");
  assert_true(strtoull(world_out(&w, "snapshot.resources.process.memory_bytes"), NULL, 10) > 100000);
  assert_true(strtoull(world_out(&w, "snapshot.resources.disk.total_bytes"), NULL, 10) > 0);
  assert_true(strtoull(world_out(&w, "snapshot.resources.system.cpus"), NULL, 10) > 0);
  assert_string_equal(world_out(&w, "snapshot.alerts.by_severity.error"), "1");
  assert_string_equal(world_out(&w, "snapshot.alerts.newest.0.agent"), "\"main\"");
  assert_string_equal(world_out(&w, "snapshot.health.reasons"), "[]");
  assert_string_equal(world_out(&w, "snapshot.state.at_one_instant"), "true");
  assert_string_equal(world_out(&w, "snapshot.state.stores.0.name"), "\"ada\"");
  assert_string_equal(world_out(&w, "snapshot.state.stores.0.commit"), quoted);
  assert_string_equal(world_out(&w, "snapshot.state.stores.0.keys"), "1");
  assert_string_equal(world_out(&w, "snapshot.state.stores.0.bytes"), "14");
  assert_string_equal(world_out(&w, "snapshot.state.stores.0.versions"), "2");
  assert_null(strstr((const char *)w.out.data, "secret")); /* N4: no agent's data */
  assert_null(strstr((const char *)w.out.data, "private"));
  world_close(&w);
}

static void snapshot_load__err_SnapshotNotFound__for_whatever_is_no_snapshot(void **state)
{
  (void)state;
  static const char *const ids[] = {"snap-20261115T100001Z",
                                    "snap-before",
                                    "..",
                                    "snap-20261115T100000",
                                    "snap-20261115T100000Z-1",
                                    "snap-20261115T100000Z-02",
                                    "snap-20261115T100000Z-",
                                    "snap-20261115T100000Z.json",
                                    "SNAP-20261115T100000Z",
                                    "snap-20261115T100000Z-999999",
                                    "snap-2026111xT100000Z"};
  world w;
  world_open(&w, NULL);
  world_fails(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T100000Z\"}", "SnapshotNotFound", "list_snapshots");
  world_ok(&w, "state.snapshot.create", "{}");
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    char input[128];
    snprintf(input, sizeof input, "{\"snapshot_id\":\"%s\"}", ids[i]);
    world_fails(&w, "state.snapshot.load", input, "SnapshotNotFound", "list_snapshots");
  }
  world_close(&w);
}

static void snapshot_load__in_snapshot_id__with_a_path_is_refused(void **state)
{
  (void)state;
  static const char *const ids[] = {"../snap-20261115T100000Z", "../../etc/passwd", "a/b", "snap\\n", "", "snap-20261115T100000Z\\u0000"};
  world w;
  world_open(&w, NULL);
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    char input[128];
    snprintf(input, sizeof input, "{\"snapshot_id\":\"%s\"}", ids[i]);
    world_fails(&w, "state.snapshot.load", input, "InvalidInput", NULL);
  }
  world_close(&w);
}

/* Every flipped byte of a file is noticed. */
static void snapshot_load__any_flipped_byte_is_noticed(void **state)
{
  (void)state;
  world w;
  struct stat st;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  char *path = file_of(&w, "snap-20261115T100000Z.json");
  assert_int_equal(stat(path, &st), 0);
  for (off_t at = 0; at < st.st_size; at++) {
    damage(path, at);
    if (world_call(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T100000Z\"}") == PD_OK)
      fail_msg("byte %ld can be changed", (long)at);
    damage(path, at);
  }
  world_ok(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T100000Z\"}");
  free(path);
  world_close(&w);
}

static void snapshot__a_home_without_a_folder_says_so(void **state)
{
  (void)state;
  pd_home *home = NULL;
  pd_error err;
  pd_buf out = {0};
  assert_int_equal(pd_home_open("memory:", NULL, &home, &err), PD_OK);
  pd_ctx ctx = {.home = home, .agent = "main"};
  assert_int_equal(pd_call(&ctx, "state.snapshot.create", pd_text("{}"), &out, &err), PD_UNSUPPORTED);
  assert_int_equal(pd_call(&ctx, "state.snapshot.list", pd_text("{}"), &out, &err), PD_UNSUPPORTED);
  assert_int_equal(pd_call(&ctx, "system.health", pd_text("{}"), &out, &err), PD_OK);
  pd_buf_done(&out);
  assert_int_equal(pd_home_close(home, &err), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(snapshot_create__out_snapshot_id__names_the_second),
    cmocka_unit_test(snapshot_create__out_snapshot_id__is_unique_within_a_second_across_processes),
    cmocka_unit_test(snapshot_create__out_timestamp__is_when_it_was_taken),
    cmocka_unit_test(snapshot_create__out_size_bytes__is_that_of_the_file),
    cmocka_unit_test(snapshot_create__out_removed_count__is_what_went_beyond_snapshot_keep),
    cmocka_unit_test(snapshot_create__effect_1__creates_a_private_json_file),
    cmocka_unit_test(snapshot_create__effect_2__the_oldest_go_with_their_tags),
    cmocka_unit_test(snapshot_create__tags_of_snapshots_removed_by_hand_go_and_others_tags_stay),
    cmocka_unit_test(snapshot_create__what_it_names_survives_gc),
    cmocka_unit_test(snapshot_create__err_IoError__for_folders_that_are_none),
    cmocka_unit_test(snapshot_create__err_IoError__for_a_folder_that_cannot_be_written),
    cmocka_unit_test(snapshot_create__out_at_one_instant__is_true_only_of_states_of_one_moment),
    cmocka_unit_test(snapshot_create__with_a_writer_that_never_rests_ends_and_says_so),
    cmocka_unit_test(snapshot_create__stops_when_its_caller_leaves_and_leaves_nothing),
    cmocka_unit_test(snapshot_list__out_snapshots__is_empty_where_there_are_none),
    cmocka_unit_test(snapshot_list__out_count__newest_first_over_seconds_and_numbers),
    cmocka_unit_test(snapshot_list__out_skipped__tells_damaged_and_foreign_files),
    cmocka_unit_test(snapshot_list__err_IoError__for_folders_that_are_none),
    cmocka_unit_test(snapshot_load__out_snapshot__tells_agents_resources_approvals_alerts_health_and_state),
    cmocka_unit_test(snapshot_load__err_SnapshotNotFound__for_whatever_is_no_snapshot),
    cmocka_unit_test(snapshot_load__in_snapshot_id__with_a_path_is_refused),
    cmocka_unit_test(snapshot_load__any_flipped_byte_is_noticed),
    cmocka_unit_test(snapshot__a_home_without_a_folder_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
