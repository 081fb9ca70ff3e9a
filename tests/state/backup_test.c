/* backup_test.c: state.backup.create, .list and .restore: what the seed says of each. Kills are in restore_kill_test.c. */
#include "base/base.h"
#include "base/buf.h"
#include "base/file.h"
#include "state/backup.h"
#include "state/backup_world.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- create ---- */

static void backup_create__out_backup_id__names_the_file(void **state)
{
  (void)state;
  world w;
  struct stat is;
  open_with_state(&w);
  char *first = create(&w, "{}"), *second = create(&w, "{}"), *path = file_of(&w, first);
  assert_string_equal(first, "bkp-20261115T100000Z");
  assert_string_equal(second, "bkp-20261115T100000Z-2");
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0600);
  free(first), free(second), free(path);
  world_close(&w);
}

static void backup_create__out_created_at__is_the_time_of_the_call(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  free(create(&w, "{}"));
  assert_string_equal(world_out(&w, "created_at"), "\"2026-11-15T10:00:00.000Z\"");
  world_close(&w);
}

static void backup_create__out_file_size_bytes__is_the_size_of_the_file(void **state)
{
  (void)state;
  world w;
  struct stat is;
  open_with_state(&w);
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(atoll(world_out(&w, "file_size_bytes")), is.st_size);
  free(id), free(path);
  world_close(&w);
}

static void backup_create__out_scope__is_full_or_the_agent(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  free(create(&w, "{}"));
  assert_string_equal(world_out(&w, "scope"), "\"full\"");
  free(create(&w, "{\"agent\":\"helper\"}"));
  assert_string_equal(world_out(&w, "scope"), "\"agent:helper\"");
  world_close(&w);
}

static void backup_create__in_agent__backs_up_only_that_agent(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{\"agent\":\"helper\"}");
  change_all(&w);
  restore_ok(&w, id);
  assert_string_equal(world_out(&w, "agents_restored"), "[\"helper\"]");
  assert_string_equal(get(&w, "helper", "plan"), "2");
  assert_string_equal(get(&w, "main", "plan"), "changed");
  assert_string_equal(get(&w, "shared", "plan"), "changed");
  world_fails(&w, "state.backup.create", "{\"agent\":\"nobody\"}", "InvalidInput", NULL);
  world_fails(&w, "state.backup.create", "{\"agent\":\"../x\"}", "InvalidInput", NULL);
  world_fails(&w, "state.backup.create", "{\"agent\":\"shared\"}", "InvalidInput", NULL);
  assert_int_equal(count(&w), 1);
  free(id);
  world_close(&w);
}

static void backup_create__effect_1__creates_an_encrypted_file(void **state)
{
  (void)state;
  world w;
  pd_buf bytes = {0};
  open_with_vault(&w, NULL);
  put_text(&w, "main", "a-telling-key", "a value that would be seen");
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  read_whole(path, &bytes);
  assert_null(memmem(bytes.data, bytes.size, "a-telling-key", 13));
  assert_null(memmem(bytes.data, bytes.size, "would be seen", 13));
  assert_null(memmem(bytes.data, bytes.size, "instant_ms", 10));
  pd_buf_done(&bytes);
  free(id), free(path);
  world_close(&w);
}

static void backup_create__out_outside__names_stores_that_are_placed_elsewhere(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  free(create(&w, "{}"));
  assert_string_equal(world_out(&w, "outside"), "");
  char *to = text_of("sqlite:%s/elsewhere", w.folder), place[PD_PLACE_SIZE];
  assert_int_equal(pd_store_placed(w.uri, "worker", place, NULL), PD_NOT_FOUND);
  assert_int_equal(pd_store_place(w.uri, "worker", to, &w.err), PD_OK);
  assert_int_equal(pd_store_place(w.uri, "worker", to, &w.err), PD_OK);
  assert_int_equal(pd_store_place(w.uri, "worker", "memory:", &w.err), PD_INVALID);
  assert_int_equal(pd_store_placed(w.uri, "worker", place, NULL), PD_OK);
  assert_string_equal(place, to);
  free(create(&w, "{}"));
  assert_string_equal(world_out(&w, "outside"), "[\"worker\"]");
  world_fails(&w, "state.backup.create", "{\"agent\":\"worker\"}", "InvalidInput", NULL);
  free(to);
  world_close(&w);
}

/* As the guide says to move a store: its files go away, then it is placed. */
static void move_helper_away(world *w)
{
  static const char *const suffixes[] = {"db", "db-wal", "db-shm", "lock"};
  char *to = text_of("sqlite:%s/elsewhere", w->folder);
  world_restart(w);
  unlock(w, RIGHT);
  for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
    char *path = text_of("%s/helper.%s", w->folder, suffixes[i]);
    unlink(path);
    free(path);
  }
  if (pd_store_place(w->uri, "helper", to, &w->err)) fail_msg("place: %s", w->err.message);
  put_text(w, "helper", "plan", "elsewhere");
  free(to);
}

static void backup_restore__out_outside__an_agent_that_was_placed_since_is_left(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *input = text_of("{\"backup_id\":\"%s\"}", id);
  char *one = text_of("{\"backup_id\":\"%s\",\"agent\":\"helper\"}", id);
  move_helper_away(&w);
  put_text(&w, "main", "plan", "changed");
  put_text(&w, "shared", "plan", "changed");
  world_ok(&w, "state.backup.restore", input);
  assert_string_equal(world_out(&w, "agents_restored"), "[\"main\"]");
  assert_string_equal(world_out(&w, "outside"), "[\"helper\"]");
  assert_string_equal(world_out(&w, "shared_state_restored"), "true");
  assert_string_equal(get(&w, "main", "plan"), "1");
  assert_string_equal(get(&w, "shared", "plan"), "3");
  assert_string_equal(get(&w, "helper", "plan"), "elsewhere");
  world_fails(&w, "state.backup.restore", one, "InvalidInput", NULL);
  assert_null(strstr(w.err.message, w.folder)); /* an agent may ask for it, too */
  world_ok(&w, "agents.list", "{}");
  assert_string_equal(world_out(&w, "agents.0.agent"), "\"helper\"");
  assert_non_null(strstr(world_out(&w, "agents.0.place"), "/elsewhere\""));
  w.agent = "helper", w.is_operator = false;
  world_ok(&w, "agents.list", "{}");
  assert_string_equal(world_out(&w, "agents.0.agent"), "\"helper\"");
  assert_string_equal(world_out(&w, "agents.0.place"), "");
  free(id), free(input), free(one);
  world_close(&w);
}

static void snapshot_restore__out_outside__names_stores_that_were_left(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  world_ok(&w, "state.snapshot.create", "{}");
  char *id = out_text_of(&w, "snapshot_id"), *input = text_of("{\"snapshot_id\":\"%s\"}", id);
  world_ok(&w, "state.snapshot.restore", input);
  assert_string_equal(world_out(&w, "outside"), "");
  move_helper_away(&w);
  put_text(&w, "main", "plan", "changed");
  world_ok(&w, "state.snapshot.restore", input);
  assert_string_equal(world_out(&w, "outside"), "[\"helper\"]");
  assert_string_equal(get(&w, "main", "plan"), "1");
  assert_string_equal(get(&w, "helper", "plan"), "elsewhere");
  free(id), free(input);
  world_close(&w);
}

static void backup_create__out_backup_id__never_comes_again(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  w.home->config.backup_keep = 2;
  static const char *const ids[] = {"bkp-20261115T100000Z", "bkp-20261115T100000Z-2", "bkp-20261115T100000Z-3", "bkp-20261115T100000Z-4"};
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    char *id = create(&w, "{}"), *path = file_of(&w, id);
    assert_string_equal(id, ids[i]);
    assert_int_equal(access(path, F_OK), 0);
    free(id), free(path);
  }
  assert_int_equal(count(&w), 2);
  world_close(&w);
}

/* Backups of one agent push out neither the full one nor those of another; what was imported stays, however old. */
static void backup_create__effect_2__counts_each_scope_by_itself(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *full = create(&w, "{}"), *path = file_of(&w, full), *away = text_of("%s/away.pdb", w.folder);
  w.now_ms += 1000;
  char *gone = create(&w, "{\"agent\":\"main\"}"), *gone_path = file_of(&w, gone);
  assert_int_equal(rename(gone_path, away), 0); /* which comes back as an import, and is the oldest of all */
  for (unsigned i = 0; i < 12; i++) {
    w.now_ms += 1000;
    free(create(&w, "{\"agent\":\"main\"}"));
  }
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(count(&w), 11);
  w.is_operator = true;
  world_okf(&w, "state.backup.import", "{\"path\":\"%s\"}", away);
  w.now_ms += 1000;
  free(create(&w, "{\"agent\":\"main\"}"));
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(access(gone_path, F_OK), 0);
  assert_int_equal(count(&w), 12); /* one full, ten of main, one that was imported */
  free(full), free(path), free(away), free(gone), free(gone_path);
  world_close(&w);
}

static void backup_create__effect_2__removes_the_oldest_beyond_the_limit(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  for (unsigned i = 0; i < 12; i++) {
    free(create(&w, "{}"));
    w.now_ms += 1000;
  }
  assert_int_equal(count(&w), 10); /* the default of backup.keep */
  assert_string_equal(world_out(&w, "backups.0.backup_id"), "\"bkp-20261115T100011Z\"");
  assert_string_equal(world_out(&w, "backups.9.backup_id"), "\"bkp-20261115T100002Z\"");
  w.now_ms -= 3600000; /* a clock that went back does not make the new one the oldest to go */
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(count(&w), 10);
  free(id), free(path);
  world_close(&w);
}

static void backup_create__err_IoError__a_folder_that_cannot_be_written(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *folder = text_of("%s/backups", w.folder);
  write_whole(folder, pd_text("a file where the folder should be"));
  world_fails(&w, "state.backup.create", "{}", "IoError", "check_disk");
  free(folder);
  world_close(&w);
}

static void backup_create__err_VaultLocked__without_a_key(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  pd_vault_lock(w.home);
  world_fails(&w, "state.backup.create", "{}", "VaultLocked", "unlock_vault");
  assert_int_equal(count(&w), 0);
  unlock(&w, RIGHT);
  w.now_ms += 3600000; /* longer than vault.idle */
  world_fails(&w, "state.backup.create", "{}", "VaultLocked", "unlock_vault");
  world_close(&w);
}

/* ---- list ---- */

static void backup_list__out_backups__newest_first_with_all_fields(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  free(create(&w, "{}"));
  w.now_ms += 5000;
  free(create(&w, "{\"agent\":\"main\"}"));
  char *size = text_of("%s", world_out(&w, "file_size_bytes"));
  pd_vault_lock(w.home); /* listing needs no key */
  assert_int_equal(count(&w), 2);
  assert_string_equal(world_out(&w, "backups.0.backup_id"), "\"bkp-20261115T100005Z\"");
  assert_string_equal(world_out(&w, "backups.0.created_at"), "\"2026-11-15T10:00:05.000Z\"");
  assert_string_equal(world_out(&w, "backups.0.scope"), "\"agent:main\"");
  assert_string_equal(world_out(&w, "backups.0.file_size_bytes"), size);
  assert_string_equal(world_out(&w, "backups.1.scope"), "\"full\"");
  free(size);
  world_close(&w);
}

static void backup_list__out_count__is_the_number_of_backups(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  assert_int_equal(count(&w), 0);
  free(create(&w, "{}"));
  assert_int_equal(count(&w), 1);
  world_close(&w);
}

static void backup_list__err_IoError__a_folder_that_cannot_be_read(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *folder = text_of("%s/backups", w.folder);
  write_whole(folder, pd_text("a file where the folder should be"));
  world_fails(&w, "state.backup.list", "{}", "IoError", "check_disk");
  free(folder);
  world_close(&w);
}

static void backup_list__out_unreadable__names_files_that_are_no_backups(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *path = file_of(&w, id);
  char *other = file_of(&w, "bkp-20301115T100000Z"), *junk = file_of(&w, "junk"), *note = text_of("%s/backups/note.txt", w.folder);
  pd_buf bytes = {0};
  read_whole(path, &bytes);
  write_whole(other, pd_buf_bytes(&bytes)); /* an old backup under a new name */
  write_whole(junk, pd_text("nothing"));
  write_whole(note, pd_text("nothing"));
  assert_int_equal(count(&w), 1);
  assert_string_equal(world_out(&w, "unreadable"), "[\"junk\",\"bkp-20301115T100000Z\"]");
  world_fails(&w, "state.backup.restore", "{\"backup_id\":\"bkp-20301115T100000Z\"}", "BackupNotFound", "list_backups");
  assert_non_null(strstr(w.err.message, id));
  pd_buf_done(&bytes);
  free(id), free(path), free(other), free(junk), free(note);
  world_close(&w);
}

/* ---- restore ---- */

static void backup_restore__in_backup_id__chooses_the_backup(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *first = create(&w, "{}");
  put_text(&w, "main", "plan", "second");
  char *second = create(&w, "{}");
  change_all(&w);
  restore_ok(&w, second);
  assert_string_equal(get(&w, "main", "plan"), "second");
  restore_ok(&w, first);
  assert_old(&w);
  restore_ok(&w, second);
  assert_string_equal(get(&w, "main", "plan"), "second");
  free(first), free(second);
  world_close(&w);
}

static void backup_restore__in_agent__restores_only_that_agent_out_of_a_full_one(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  change_all(&w);
  assert_int_equal(world_callf(&w, "state.backup.restore", "{\"backup_id\":\"%s\",\"agent\":\"helper\"}", id), PD_OK);
  assert_string_equal(world_out(&w, "agents_restored"), "[\"helper\"]");
  assert_string_equal(world_out(&w, "shared_state_restored"), "false");
  assert_string_equal(get(&w, "helper", "plan"), "2");
  assert_string_equal(get(&w, "main", "plan"), "changed");
  assert_string_equal(get(&w, "shared", "plan"), "changed");
  assert_int_equal(world_callf(&w, "state.backup.restore", "{\"backup_id\":\"%s\",\"agent\":\"nobody\"}", id), PD_NOT_FOUND);
  assert_string_equal(pd_error_name(&w.err), "BackupNotFound");
  free(id);
  world_close(&w);
}

static void backup_restore__out_restored__is_true(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  restore_ok(&w, id);
  assert_string_equal(world_out(&w, "restored"), "true");
  free(id);
  world_close(&w);
}

static void backup_restore__out_agents_restored__names_them(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  restore_ok(&w, id);
  assert_string_equal(world_out(&w, "agents_restored"), "[\"helper\",\"main\"]");
  free(id);
  world_close(&w);
}

static void backup_restore__out_shared_state_restored__is_true_for_a_full_one(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *full = create(&w, "{}"), *one = create(&w, "{\"agent\":\"main\"}");
  restore_ok(&w, full);
  assert_string_equal(world_out(&w, "shared_state_restored"), "true");
  restore_ok(&w, one);
  assert_string_equal(world_out(&w, "shared_state_restored"), "false");
  free(full), free(one);
  world_close(&w);
}

static void backup_restore__out_former_state__names_a_ref_of_its_own_each_time(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  change_all(&w);
  restore_ok(&w, id);
  char *first = out_text_of(&w, "former_state"), *first_ref = text_of("%s/main", first);
  put_text(&w, "main", "plan", "changed again");
  restore_ok(&w, id);
  char *second = out_text_of(&w, "former_state"), *second_ref = text_of("%s/main", second);
  assert_string_not_equal(first, second);
  assert_string_equal(get_at(&w, "main", first_ref, "plan"), "changed");
  assert_string_equal(get_at(&w, "main", second_ref, "plan"), "changed again");
  assert_string_equal(get_at(&w, "helper", second_ref, "plan"), "(none)"); /* nothing was replaced there */
  assert_old(&w);
  free(id), free(first), free(first_ref), free(second), free(second_ref);
  world_close(&w);
}

static void backup_restore__effect_1__overwrites_persistent_state_and_keeps_the_former(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  change_all(&w);
  put_text(&w, "main", "new-key", "x");
  restore_ok(&w, id);
  char *former = out_text_of(&w, "former_state"), *ref = text_of("%s/main", former);
  assert_old(&w);
  assert_string_equal(get(&w, "main", "new-key"), "(none)");
  assert_string_equal(get_at(&w, "main", ref, "new-key"), "x");
  assert_string_equal(get_at(&w, "helper", ref, "plan"), "changed");
  assert_string_equal(get_at(&w, "shared", ref, "plan"), "changed");
  assert_string_equal(get_at(&w, "main", "restoring/main", "plan"), "(none)");
  free(id), free(former), free(ref);
  world_close(&w);
}

static void backup_restore__effect_2__overwrites_shared_state_for_a_full_one(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  put_text(&w, "shared", "plan", "changed");
  restore_ok(&w, id);
  assert_string_equal(get(&w, "shared", "plan"), "3");
  free(id);
  world_close(&w);
}

static void backup_restore__effect_3__is_in_the_audit_trail(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  restore_ok(&w, id);
  world_ok(&w, "audit.list", "{}");
  assert_non_null(strstr((const char *)w.out.data, "state.backup.restore"));
  assert_non_null(strstr((const char *)w.out.data, id));
  assert_null(strstr((const char *)w.out.data, RIGHT));
  free(id);
  world_close(&w);
}

static void backup_restore__err_BackupNotFound__an_unknown_id(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  world_fails(&w, "state.backup.restore", "{\"backup_id\":\"bkp-20260325T140000\"}", "BackupNotFound", "list_backups");
  world_fails(&w, "state.backup.restore", "{\"backup_id\":\"..\"}", "BackupNotFound", "list_backups");
  world_fails(&w, "state.backup.restore", "{\"backup_id\":\"a/b\"}", "InvalidInput", NULL);
  world_fails(&w, "state.backup.restore", "{}", "InvalidInput", NULL);
  world_close(&w);
}

static void backup_restore__err_DecryptionFailed__tells_a_wrong_key_from_damage(void **state)
{
  (void)state;
  world w;
  pd_buf bytes = {0};
  open_with_state(&w);
  char *id = create(&w, "{}"), *path = file_of(&w, id), *vault = text_of("%s/vault.json", w.folder),
       *input = text_of("{\"backup_id\":\"%s\"}", id);
  read_whole(path, &bytes);
  bytes.data[bytes.size - 30] ^= 1;
  write_whole(path, pd_buf_bytes(&bytes));
  world_fails(&w, "state.backup.restore", input, "DecryptionFailed", "check_vault");
  assert_non_null(strstr(w.err.message, "damaged"));
  bytes.data[bytes.size - 30] ^= 1;
  write_whole(path, pd_buf_bytes(&bytes));
  assert_int_equal(unlink(vault), 0); /* another vault */
  assert_int_equal(pd_vault_init(w.home, pd_text(RIGHT), &cheap, &w.err), PD_OK);
  unlock(&w, RIGHT);
  world_fails(&w, "state.backup.restore", input, "DecryptionFailed", "check_vault");
  assert_non_null(strstr(w.err.message, "wrong key"));
  pd_buf_done(&bytes);
  free(id), free(path), free(vault), free(input);
  world_close(&w);
}

static void backup_create__a_locked_vault_does_not_use_up_the_approval(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  w.is_operator = false;
  world_fails(&w, "state.backup.create", "{}", "ApprovalRequired", "wait");
  pd_vault_lock(w.home);
  char approve[128];
  snprintf(approve, sizeof approve, "{\"approval_id\":%s}", world_out(&w, "error.details.approval_id"));
  w.is_operator = true;
  world_ok(&w, "approvals.approve", approve);
  w.is_operator = false;
  world_fails(&w, "state.backup.create", "{}", "VaultLocked", "unlock_vault");
  unlock(&w, RIGHT);
  world_ok(&w, "state.backup.create", "{}");
  world_fails(&w, "state.backup.create", "{}", "ApprovalRequired", "wait"); /* it was good once */
  world_close(&w);
}

static void backup_restore__err_VaultLocked__changes_nothing(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *input = text_of("{\"backup_id\":\"%s\"}", id);
  change_all(&w);
  pd_vault_lock(w.home);
  world_fails(&w, "state.backup.restore", input, "VaultLocked", "unlock_vault");
  world_fails(&w, "state.backup.verify", input, "VaultLocked", "unlock_vault");
  assert_changed(&w);
  free(id), free(input);
  world_close(&w);
}

static void backup_restore__agents_that_the_backup_does_not_know_stay_as_they_are(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  put_text(&w, "late", "plan", "mine");
  restore_ok(&w, id);
  assert_string_equal(get(&w, "late", "plan"), "mine");
  free(id);
  world_close(&w);
}

static void backup_restore__versions_and_history_come_back(void **state)
{
  (void)state;
  world w;
  pd_store *s = NULL;
  pd_entry entry;
  open_with_vault(&w, NULL);
  for (unsigned i = 0; i < 5; i++) put_text(&w, "main", "plan", "v");
  char *id = create(&w, "{}");
  put_text(&w, "main", "plan", "later");
  restore_ok(&w, id);
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_int_equal(pd_get(s, "main", pd_text("plan"), NULL, &entry, &w.err), PD_OK);
  assert_int_equal(entry.version, 5);
  assert_int_equal(pd_verify(s, NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  free(id);
  world_close(&w);
}

static void backup_restore__branches_come_back_too(void **state)
{
  (void)state;
  world w;
  pd_store *s = NULL;
  open_with_state(&w);
  assert_int_equal(pd_store_open(w.uri, "main", NULL, &s, &w.err), PD_OK);
  assert_int_equal(pd_fork(s, "idea", "main", NULL, NULL, &w.err), PD_OK);
  char *id = create(&w, "{}");
  pd_note note = {.ref = "idea"};
  assert_int_equal(pd_put(s, pd_text("plan"), pd_text("wild"), &note, NULL, &w.err), PD_OK);
  restore_ok(&w, id);
  char *former = out_text_of(&w, "former_state"), *ref = text_of("%s/idea", former);
  assert_string_equal(get_at(&w, "main", "idea", "plan"), "1");
  assert_string_equal(get_at(&w, "main", ref, "plan"), "wild");
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  free(id), free(former), free(ref);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup_create__out_backup_id__names_the_file),
    cmocka_unit_test(backup_create__out_created_at__is_the_time_of_the_call),
    cmocka_unit_test(backup_create__out_file_size_bytes__is_the_size_of_the_file),
    cmocka_unit_test(backup_create__out_scope__is_full_or_the_agent),
    cmocka_unit_test(backup_create__in_agent__backs_up_only_that_agent),
    cmocka_unit_test(backup_create__effect_1__creates_an_encrypted_file),
    cmocka_unit_test(backup_create__out_backup_id__never_comes_again),
    cmocka_unit_test(backup_create__effect_2__counts_each_scope_by_itself),
    cmocka_unit_test(backup_create__out_outside__names_stores_that_are_placed_elsewhere),
    cmocka_unit_test(backup_restore__out_outside__an_agent_that_was_placed_since_is_left),
    cmocka_unit_test(snapshot_restore__out_outside__names_stores_that_were_left),
    cmocka_unit_test(backup_create__effect_2__removes_the_oldest_beyond_the_limit),
    cmocka_unit_test(backup_create__err_IoError__a_folder_that_cannot_be_written),
    cmocka_unit_test(backup_create__err_VaultLocked__without_a_key),
    cmocka_unit_test(backup_list__out_backups__newest_first_with_all_fields),
    cmocka_unit_test(backup_list__out_count__is_the_number_of_backups),
    cmocka_unit_test(backup_list__err_IoError__a_folder_that_cannot_be_read),
    cmocka_unit_test(backup_list__out_unreadable__names_files_that_are_no_backups),
    cmocka_unit_test(backup_restore__in_backup_id__chooses_the_backup),
    cmocka_unit_test(backup_restore__in_agent__restores_only_that_agent_out_of_a_full_one),
    cmocka_unit_test(backup_restore__out_restored__is_true),
    cmocka_unit_test(backup_restore__out_agents_restored__names_them),
    cmocka_unit_test(backup_restore__out_shared_state_restored__is_true_for_a_full_one),
    cmocka_unit_test(backup_restore__out_former_state__names_a_ref_of_its_own_each_time),
    cmocka_unit_test(backup_restore__effect_1__overwrites_persistent_state_and_keeps_the_former),
    cmocka_unit_test(backup_restore__effect_2__overwrites_shared_state_for_a_full_one),
    cmocka_unit_test(backup_restore__effect_3__is_in_the_audit_trail),
    cmocka_unit_test(backup_restore__err_BackupNotFound__an_unknown_id),
    cmocka_unit_test(backup_restore__err_DecryptionFailed__tells_a_wrong_key_from_damage),
    cmocka_unit_test(backup_create__a_locked_vault_does_not_use_up_the_approval),
    cmocka_unit_test(backup_restore__err_VaultLocked__changes_nothing),
    cmocka_unit_test(backup_restore__agents_that_the_backup_does_not_know_stay_as_they_are),
    cmocka_unit_test(backup_restore__versions_and_history_come_back),
    cmocka_unit_test(backup_restore__branches_come_back_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
