/* restore_test.c: state.backup.restore beside a full disk, erasures, an older perdure's half of a restore, and missing backups. */
#include "base/base.h"
#include "base/buf.h"
#include "state/backup_world.h"
#include "support/temp_folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "the-launch-code-is-hunter2"

static bool has_file(const world *w, const char *name)
{
  char *path = text_of("%s/%s", w->folder, name);
  bool is_there = access(path, F_OK) == 0;
  free(path);
  return is_there;
}

/* ---- a full disk ---- */

static void set_full(bool is_full)
{
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = is_full ? 0 : limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

typedef struct trap {
  world *w;
  unsigned calls; /* of the clock inside the switch, before the disk is full */
  bool has_snapped;
} trap;

/* A clock that is asked for each commit: the disk is full from some commit of the switch on. */
static int64_t clock_of(void *ctx)
{
  trap *t = ctx;
  if (!t->has_snapped && has_file(t->w, ".joint") && !t->calls--) {
    t->has_snapped = true;
    set_full(true);
  }
  return t->w->now_ms;
}

static pd_code restore_on_full_disk(world *w, const char *id, const char *capability, const char *name, unsigned calls, bool *out_snapped)
{
  pd_home *home = NULL;
  pd_buf out = {0};
  pd_error err;
  trap t = {.w = w, .calls = calls};
  pd_home_options options = {.now_ms = clock_of, .now_ctx = &t};
  if (pd_home_open(w->uri, &options, &home, &err) || pd_vault_unlock(home, pd_text(RIGHT), &err)) fail_msg("%s", err.message);
  pd_ctx ctx = {.home = home, .agent = "main", .is_operator = true};
  char *input = text_of("{\"%s\":\"%s\"}", name, id);
  pd_code code = pd_call(&ctx, capability, pd_text(input), &out, &err);
  set_full(false);
  (void)!pd_home_close(home, NULL);
  *out_snapped = t.has_snapped;
  pd_buf_done(&out);
  free(input);
  return code;
}

static void fill_disk_during(const char *create, const char *restore_by, const char *name)
{
  world w;
  bool has_snapped = true;
  signal(SIGXFSZ, SIG_IGN);
  open_with_state(&w);
  world_ok(&w, create, "{}");
  char *id = out_text_of(&w, name);
  change_all(&w);
  pd_code code = PD_STORAGE;
  unsigned failed = 0;
  for (unsigned calls = 0; code && calls < 100; calls++) {
    code = restore_on_full_disk(&w, id, restore_by, name, calls, &has_snapped);
    if (!code) break;
    failed++;
    assert_true(has_snapped);
    assert_changed(&w);
    put_text(&w, "helper", "other", "writes go on");
    assert_false(has_file(&w, ".joint"));
  }
  assert_int_equal(code, PD_OK);
  assert_true(failed >= 2); /* the disk was full inside the switch, before the first store and behind it */
  assert_old(&w);
  free(id);
  world_close(&w);
}

static void restore__a_full_disk_in_the_switch_leaves_the_old_state(void **state)
{
  (void)state;
  fill_disk_during("state.backup.create", "state.backup.restore", "backup_id");
}

static void snapshot_restore__a_full_disk_in_the_switch_leaves_the_old_state(void **state)
{
  (void)state;
  fill_disk_during("state.snapshot.create", "state.snapshot.restore", "snapshot_id");
}

/* ---- erasures ---- */

static void want_nowhere(const char *folder, const char *text)
{
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir));) {
    pd_buf bytes = {0};
    if (entry->d_type != DT_REG) continue;
    char *path = text_of("%s/%s", folder, entry->d_name);
    read_whole(path, &bytes);
    if (memmem(bytes.data, bytes.size, text, strlen(text))) fail_msg("'%s' is in %s", text, path);
    pd_buf_done(&bytes);
    free(path);
  }
  closedir(dir);
}

static void prune(world *w, const char *agent)
{
  pd_store *s = NULL;
  assert_int_equal(pd_store_open(w->uri, agent, NULL, &s, &w->err), PD_OK);
  if (pd_gc(s, &(pd_gc_policy){.keep_last = 1, .keep_refs = ""}, NULL, &w->err)) fail_msg("gc: %s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

static void restore__what_was_erased_since_does_not_come_back(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  world_ok(&w, "state.persistent.set", "{\"key\":\"code\",\"value\":\"" SECRET "\"}");
  char *id = create(&w, "{}");
  w.now_ms += 1000;
  world_ok(&w, "state.persistent.delete", "{\"key\":\"code\"}");
  for (unsigned i = 0; i < 5; i++) put_text(&w, "main", "plan", "changed");
  world_restart(&w);
  unlock(&w, RIGHT);
  prune(&w, "main"); /* its commits are gone, so the restore brings them again */
  want_nowhere(w.folder, SECRET);
  restore_ok(&w, id);
  assert_string_equal(get(&w, "main", "plan"), "1");
  assert_string_equal(get(&w, "main", "code"), "(none)");
  assert_int_equal(w.err.code, PD_ERASED);
  want_nowhere(w.folder, SECRET);
  free(id);
  world_close(&w);
}

/* ---- what is told of agents ---- */

/* Decision 099: that an agent crashed, and why, is what an operator restores it for. */
static void restore__alerts_and_process_events_since_then_stay(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  w.now_ms += 1000;
  change_all(&w);
  w.is_operator = false;
  w.agent = "main";
  world_ok(&w, "alerts.send", "{\"severity\":\"critical\",\"title\":\"seen\",\"message\":\"m\"}");
  char *alert = out_text_of(&w, "alert_id");
  world_ok(&w, "alerts.send", "{\"severity\":\"critical\",\"title\":\"new\",\"message\":\"m\"}");
  world_ok(&w, "process.record", "{\"event\":\"crashed\",\"name\":\"main\",\"signal\":\"SIGSEGV\"}");
  w.is_operator = true;
  world_okf(&w, "alerts.acknowledge", "{\"alert_id\":\"%s\"}", alert);
  restore_ok(&w, id);
  assert_string_equal(get(&w, "main", "plan"), "1");
  world_ok(&w, "alerts.list", "{\"unacknowledged\":true}");
  world_want(&w, "count", "1");
  world_want(&w, "alerts.0.title", "\"new\"");
  world_ok(&w, "process.list", "{}");
  world_want(&w, "events.0.event", "\"crashed\"");
  free(alert);
  free(id);
  world_close(&w);
}

/* ---- before joint commits ---- */

static void restore__one_that_an_older_perdure_decided_is_carried_out(void **state)
{
  (void)state;
  world w;
  char hex[PD_ID_HEX_SIZE];
  pd_ref main;
  pd_store *s = NULL;
  open_with_state(&w);
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_int_equal(pd_ref_get(s, "main", &main, &w.err), PD_OK);
  assert_int_equal(pd_fork(s, "restoring/main", "main", NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  change_all(&w);
  char *text = text_of("{\"id\":\"20261115T100000Z-00000001\",\"backup\":\"bkp-x\","
                       "\"stores\":[{\"name\":\"main\",\"head\":\"%s\",\"seq\":0}]}",
                       pd_id_hex(&main.commit.id, hex));
  char *path = text_of("%s/restore.json", w.folder);
  write_whole(path, pd_text(text));
  world_restart(&w);
  assert_string_equal(get(&w, "main", "plan"), "1");
  assert_false(has_file(&w, "restore.json"));
  free(path), free(text);
  world_close(&w);
}

/* ---- rollback and removal ---- */

static void count_gone(void *ctx, const pd_diagnosis *d)
{
  if (strstr(d->what, "was made here, and its file is gone")) ++*(unsigned *)ctx;
}

static void backup_list__out_missing__names_a_backup_whose_file_is_gone(void **state)
{
  (void)state;
  world w;
  unsigned gone = 0;
  pd_severity worst;
  open_with_state(&w);
  char *kept = create(&w, "{}");
  w.now_ms += 1000;
  char *removed = create(&w, "{}"), *path = file_of(&w, removed);
  world_ok(&w, "state.backup.list", "{}");
  world_want(&w, "missing", "[]");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(count(&w), 1);
  char *want = text_of("[\"%s\"]", removed);
  world_want(&w, "missing", want);
  assert_int_equal(pd_doctor(w.uri, count_gone, &gone, &worst, &w.err), PD_OK);
  assert_int_equal(gone, 1);
  free(kept), free(removed), free(path), free(want);
  world_close(&w);
}

static void backup_list__what_backup_keep_removed_is_not_missing(void **state)
{
  (void)state;
  world w;
  open_with_vault(&w, "backup.keep = 1\n");
  put_text(&w, "main", "plan", "1");
  for (unsigned i = 0; i < 3; i++) {
    free(create(&w, "{}"));
    w.now_ms += 1000;
  }
  assert_int_equal(count(&w), 1);
  world_want(&w, "missing", "[]");
  world_close(&w);
}

/* A home whose clock is ahead of that of the stores' own handles: what these wrote is older than a backup. */
static char *open_ahead(world *w)
{
  open_with_state(w);
  w->now_ms = INT64_C(4102444800000);
  unlock(w, RIGHT);
  char *id = create(w, "{}");
  w->now_ms += 1000;
  return id;
}

static const char *ask_approval(world *w, const char *id)
{
  w->is_operator = false;
  assert_int_equal(restore(w, id), PD_APPROVAL);
  w->is_operator = true;
  world_ok(w, "approvals.list", "{}");
  return world_out(w, "approvals.0.policy");
}

static void restore__the_approval_says_that_the_backup_is_older(void **state)
{
  (void)state;
  world w;
  char *id = open_ahead(&w);
  const char *why = ask_approval(&w, id);
  if (!strstr(why, "2100-01-01T00:00:00.000Z, and nothing is newer")) fail_msg("%s", why);
  free(id);
  world_close(&w);
  id = open_ahead(&w);
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  why = ask_approval(&w, id);
  if (!strstr(why, "older than what is there: 1 commits since, in 1 stores (main: 1), the last on 2100-01-01T00:00:01.000Z"))
    fail_msg("%s", why);
  free(id);
  world_close(&w);
}

static void backup_restore__out_backup_created_at__is_when_the_backup_was_made(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  w.now_ms += 60000;
  restore_ok(&w, id);
  world_want(&w, "backup_created_at", "\"2026-11-15T10:00:00.000Z\"");
  free(id);
  world_close(&w);
}

static void backup_restore__out_newer_commits__counts_what_is_set_aside(void **state)
{
  (void)state;
  world w;
  char *id = open_ahead(&w);
  restore_ok(&w, id);
  world_want(&w, "newer_commits", "0");
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  restore_ok(&w, id);
  world_want(&w, "newer_commits", "1");
  free(id);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(restore__a_full_disk_in_the_switch_leaves_the_old_state),
    cmocka_unit_test(snapshot_restore__a_full_disk_in_the_switch_leaves_the_old_state),
    cmocka_unit_test(restore__what_was_erased_since_does_not_come_back),
    cmocka_unit_test(restore__alerts_and_process_events_since_then_stay),
    cmocka_unit_test(restore__one_that_an_older_perdure_decided_is_carried_out),
    cmocka_unit_test(backup_list__out_missing__names_a_backup_whose_file_is_gone),
    cmocka_unit_test(backup_list__what_backup_keep_removed_is_not_missing),
    cmocka_unit_test(backup_restore__out_backup_created_at__is_when_the_backup_was_made),
    cmocka_unit_test(backup_restore__out_newer_commits__counts_what_is_set_aside),
    cmocka_unit_test(restore__the_approval_says_that_the_backup_is_older),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
