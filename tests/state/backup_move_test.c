/* backup_move_test.c: state.backup.export, .import and .verify. */
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

/* ---- export, import, verify ---- */

static void backup_export__in_path__a_folder_keeps_the_name_a_file_gets_it(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *file = text_of("%s/mine", away), *named = text_of("%s/%s.pdb", away, id);
  char *slashed = text_of("%s//", away), *a = export_path(&w, id, slashed), *b = export_path(&w, id, file), *c = export_path(&w, id, away);
  assert_string_equal(a, named);
  assert_string_equal(b, file);
  assert_string_equal(c, named); /* once more: the same backup is there, which is fine */
  free(id), free(file), free(named), free(slashed), free(a), free(b), free(c);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_export__in_backup_id__chooses_the_backup(void **state)
{
  (void)state;
  world w;
  pd_buf a = {0}, b = {0};
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *path = file_of(&w, id);
  free(create(&w, "{}"));
  char *copy = export_path(&w, id, away);
  read_whole(path, &a);
  read_whole(copy, &b);
  assert_true(pd_bytes_equal(pd_buf_bytes(&a), pd_buf_bytes(&b)));
  pd_buf_done(&a);
  pd_buf_done(&b);
  free(id), free(path), free(copy);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_export__out_exported_path__is_the_full_path(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *path = export_path(&w, id, away);
  assert_int_equal(path[0], '/');
  assert_int_equal(access(path, R_OK), 0);
  free(id), free(path);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_export__out_size_bytes__is_the_size_of_the_file(void **state)
{
  (void)state;
  world w;
  struct stat is;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *path = export_path(&w, id, away);
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(atoll(world_out(&w, "size_bytes")), is.st_size);
  assert_int_equal(is.st_mode & 0777, 0600);
  free(id), free(path);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_export__effect_1__copies_the_file_also_while_the_vault_is_locked(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new();
  pd_vault_lock(w.home);
  char *path = export_path(&w, id, away);
  assert_int_equal(access(path, R_OK), 0);
  free(id), free(path);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_export__err_BackupNotFound__an_unknown_id(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  world_fails(&w, "state.backup.export", "{\"backup_id\":\"bkp-1\",\"path\":\"/tmp\"}", "BackupNotFound", "list_backups");
  world_close(&w);
}

static void backup_export__err_DecryptionFailed__a_damaged_header_is_not_sent_away(void **state)
{
  (void)state;
  world w;
  pd_buf bytes = {0};
  open_with_state(&w);
  char *id = create(&w, "{}"), *path = file_of(&w, id), *away = temp_folder_new();
  char *input = text_of("{\"backup_id\":\"%s\",\"path\":\"%s\"}", id, away);
  read_whole(path, &bytes);
  bytes.data[100] ^= 1;
  write_whole(path, pd_buf_bytes(&bytes));
  world_fails(&w, "state.backup.export", input, "DecryptionFailed", "check_vault");
  pd_buf_done(&bytes);
  free(id), free(path), free(input);
  temp_folder_free(away);
  world_close(&w);
}

static void refuse_path(world *w, const char *id, const char *path)
{
  char *input = text_of("{\"backup_id\":\"%s\",\"path\":\"%s\"}", id, path);
  world_fails(w, "state.backup.export", input, "IoError", "check_path");
  free(input);
}

static void backup_export__err_IoError__paths_that_cannot_be_written(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new();
  char *missing = text_of("%s/no/such", away), *folder = text_of("%s/no/", away), *link = text_of("%s/link", away),
       *file = text_of("%s/file", away), *below = text_of("%s/file/x", away), *dangling = text_of("%s/dangling", away),
       *through = text_of("%s/link/x.pdb", away);
  write_whole(file, pd_text("mine"));
  assert_int_equal(symlink(away, link), 0);
  assert_int_equal(symlink("/nowhere/at/all", dangling), 0);
  refuse_path(&w, id, missing);
  refuse_path(&w, id, folder);
  refuse_path(&w, id, link);
  refuse_path(&w, id, dangling);
  refuse_path(&w, id, through); /* a link on the way, too */
  refuse_path(&w, id, file);    /* exists, and is another's */
  refuse_path(&w, id, below);
  refuse_path(&w, id, "relative/path");
  refuse_path(&w, id, "/dev/null");
  refuse_path(&w, id, "/proc/backup");
  pd_buf kept = {0};
  read_whole(file, &kept);
  assert_int_equal(kept.size, 4);
  pd_buf_done(&kept);
  free(id), free(missing), free(folder), free(link), free(file), free(below), free(dangling), free(through);
  temp_folder_free(away);
  world_close(&w);
}

/* A backup whose byte at `at` (from its end, if negative) is not what it was. */
static char *create_damaged(world *w, long at)
{
  pd_buf bytes = {0};
  char *id = create(w, "{}"), *path = file_of(w, id);
  read_whole(path, &bytes);
  bytes.data[at < 0 ? (long)bytes.size + at : at] ^= 1;
  write_whole(path, pd_buf_bytes(&bytes));
  pd_buf_done(&bytes);
  free(path);
  return id;
}

static void backup_export__err_DecryptionFailed__a_damaged_header_is_not_copied(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create_damaged(&w, PD_BACKUP_HEAD_BYTES / 2), *away = temp_folder_new(), *copy = text_of("%s/copy", away);
  char *input = text_of("{\"backup_id\":\"%s\",\"path\":\"%s\"}", id, copy);
  world_fails(&w, "state.backup.export", input, "DecryptionFailed", "check_vault");
  assert_non_null(strstr(w.err.message, id));
  assert_int_equal(access(copy, F_OK), -1);
  free(id), free(copy), free(input);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_import__brings_a_backup_to_another_home_that_restores_it(void **state)
{
  (void)state;
  world w, v;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *path = export_path(&w, id, away);
  world_open(&v, NULL);
  v.is_operator = true;
  assert_int_equal(pd_vault_init(v.home, pd_text(OTHER), &cheap, &v.err), PD_OK);
  unlock(&v, OTHER);
  put_text(&v, "main", "plan", "of the other home");
  char *input = text_of("{\"path\":\"%s\"}", path);
  world_fails(&v, "state.backup.import", input, "DecryptionFailed", "check_vault");
  assert_int_equal(pd_vault_learn(v.home, path, pd_text("not the one"), &v.err), PD_DECRYPT);
  assert_int_equal(pd_vault_learn(v.home, path, pd_text(RIGHT), &v.err), PD_OK);
  world_ok(&v, "state.backup.import", input);
  assert_string_equal(world_out(&v, "is_new"), "true");
  world_ok(&v, "state.backup.import", input);
  assert_string_equal(world_out(&v, "is_new"), "false");
  world_restart(&v);
  unlock(&v, OTHER); /* the foreign key stays in the vault */
  restore_ok(&v, id);
  assert_old(&v);
  char *former = out_text_of(&v, "former_state"), *ref = text_of("%s/main", former);
  assert_string_equal(get_at(&v, "main", ref, "plan"), "of the other home");
  free(id), free(path), free(input), free(former), free(ref);
  temp_folder_free(away);
  world_close(&v);
  world_close(&w);
}

static void backup_import__another_homes_of_the_same_second_gets_a_name_of_its_own(void **state)
{
  (void)state;
  world w, v;
  open_with_state(&w);
  open_with_state(&v);
  put_text(&v, "main", "plan", "of v");
  char *id = create(&w, "{}"), *same = create(&v, "{}"), *path = file_of(&v, same), *input = text_of("{\"path\":\"%s\"}", path);
  assert_string_equal(id, same);
  assert_int_equal(pd_vault_learn(w.home, path, pd_text(RIGHT), &w.err), PD_OK);
  world_ok(&w, "state.backup.import", input);
  assert_string_equal(world_out(&w, "backup_id"), "\"bkp-20261115T100000Z.2\"");
  assert_int_equal(count(&w), 2);
  restore_ok(&w, "bkp-20261115T100000Z.2");
  assert_string_equal(get(&w, "main", "plan"), "of v");
  restore_ok(&w, id);
  assert_string_equal(get(&w, "main", "plan"), "1");
  free(id), free(same), free(path), free(input);
  world_close(&v);
  world_close(&w);
}

static void backup_import__err_IoError__paths_that_cannot_be_read(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *link = text_of("%s/link", w.folder), *input = text_of("{\"path\":\"%s\"}", link);
  assert_int_equal(symlink("/etc/passwd", link), 0);
  world_fails(&w, "state.backup.import", input, "IoError", "check_path");
  world_fails(&w, "state.backup.import", "{\"path\":\"/no/such\"}", "IoError", "check_path");
  world_fails(&w, "state.backup.import", "{\"path\":\"x\"}", "IoError", "check_path");
  world_fails(&w, "state.backup.import", "{\"path\":\"/tmp\"}", "IoError", "check_path");
  world_fails(&w, "state.backup.import", "{\"path\":\"/dev/zero\"}", "IoError", "check_path");
  free(link), free(input);
  world_close(&w);
}

static void backup_import__err_DecryptionFailed__takes_nothing_that_is_damaged_or_no_backup(void **state)
{
  (void)state;
  static const long places[] = {PD_BACKUP_HEAD_BYTES / 2, -30};
  world w;
  open_with_state(&w);
  for (size_t i = 0; i < COUNT_OF(places); i++) {
    char *id = create_damaged(&w, places[i]), *path = file_of(&w, id), *moved = text_of("%s/moved", w.folder);
    assert_int_equal(rename(path, moved), 0);
    char *input = text_of("{\"path\":\"%s\"}", moved);
    world_fails(&w, "state.backup.import", input, "DecryptionFailed", "check_vault");
    assert_int_equal(count(&w), 0);
    free(id), free(path), free(moved), free(input);
  }
  world_fails(&w, "state.backup.import", "{\"path\":\"/etc/passwd\"}", "DecryptionFailed", "check_vault");
  world_close(&w);
}

static void backup_import__err_VaultLocked__takes_nothing_unverified(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *path = export_path(&w, id, away), *input = text_of("{\"path\":\"%s\"}", path);
  pd_vault_lock(w.home);
  world_fails(&w, "state.backup.import", input, "VaultLocked", "unlock_vault");
  free(id), free(path), free(input);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_verify__says_what_is_in_it(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}");
  assert_int_equal(world_callf(&w, "state.backup.verify", "{\"backup_id\":\"%s\"}", id), PD_OK);
  assert_string_equal(world_out(&w, "valid"), "true");
  assert_string_equal(world_out(&w, "scope"), "\"full\"");
  assert_string_equal(world_out(&w, "agents"), "[\"helper\",\"main\"]");
  assert_string_equal(world_out(&w, "has_shared_state"), "true");
  assert_string_equal(world_out(&w, "commits"), "3");
  free(id);
  world_close(&w);
}

static void backup_verify__err_BackupNotFound__an_unknown_id(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  world_fails(&w, "state.backup.verify", "{\"backup_id\":\"bkp-1\"}", "BackupNotFound", "list_backups");
  world_close(&w);
}

static void backup_verify__err_DecryptionFailed__a_flipped_bit_in_header_or_body(void **state)
{
  (void)state;
  static const long places[] = {PD_BACKUP_HEAD_BYTES / 2, -30};
  world w;
  open_with_state(&w);
  for (size_t i = 0; i < COUNT_OF(places); i++) {
    char *id = create_damaged(&w, places[i]), *input = text_of("{\"backup_id\":\"%s\"}", id);
    world_fails(&w, "state.backup.verify", input, "DecryptionFailed", "check_vault");
    assert_non_null(strstr(w.err.message, "damaged"));
    free(id), free(input);
  }
  world_close(&w);
}

static void backup_verify__err_VaultLocked__without_a_key(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *input = text_of("{\"backup_id\":\"%s\"}", id);
  pd_vault_lock(w.home);
  world_fails(&w, "state.backup.verify", input, "VaultLocked", "unlock_vault");
  unlock(&w, RIGHT);
  world_ok(&w, "state.backup.verify", input);
  free(id), free(input);
  world_close(&w);
}

static void backup__drafts_that_died_are_swept_away(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  free(create(&w, "{}"));
  char *draft = text_of("%s/backups/bkp-20200101T000000Z.part", w.folder);
  write_whole(draft, pd_text("half"));
  free(create(&w, "{}"));
  assert_int_equal(access(draft, F_OK), -1);
  free(draft);
  world_close(&w);
}

/* ---- what an agent learns by asking ---- */

/* The last answer without the path that was asked for. Freed by the caller. */
static char *answer_without(const world *w, const char *path)
{
  char *text = strdup((const char *)w->out.data), *at;
  assert_non_null(text);
  while ((at = strstr(text, path))) memmove(at, at + strlen(path), strlen(at + strlen(path)) + 1);
  return text;
}

/* Paths of all kinds below `away`: a folder, files, links, none. */
static void make_paths(const char *away, char *out[7])
{
  static const char *const forms[] = {"%s/none", "%s/none/deeper", "%s/file", "%s/file/deeper", "%s/folder", "%s/link", "%s/fifo"};
  for (size_t i = 0; i < 7; i++) out[i] = text_of(forms[i], away);
  assert_int_equal(pd_file_write(out[2], pd_text("no backup"), false, NULL), PD_OK);
  assert_int_equal(mkdir(out[4], 0700), 0);
  assert_int_equal(symlink("file", out[5]), 0);
  assert_int_equal(mkfifo(out[6], 0600), 0);
}

static void backup_import__before_approval_an_agent_learns_nothing_about_the_hosts_files(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *copy = export_path(&w, id, away), *paths[7], *first = NULL;
  char *foreign = text_of("%s/foreign.pdb", away);
  pd_buf bytes = {0};
  make_paths(away, paths);
  read_whole(copy, &bytes);
  bytes.data[bytes.size - 1] ^= 1; /* what is cut or changed answers as what is no backup at all */
  bytes.size = PD_BACKUP_HEAD_BYTES;
  assert_int_equal(pd_file_write(foreign, pd_buf_bytes(&bytes), false, NULL), PD_OK);
  w.is_operator = false;
  for (size_t i = 0; i < 8; i++) {
    const char *path = i < 7 ? paths[i] : foreign;
    char *input = text_of("{\"path\":\"%s\"}", path);
    world_fails(&w, "state.backup.import", input, "IoError", "check_path");
    char *answer = answer_without(&w, path);
    if (!first) first = strdup(answer);
    assert_string_equal(answer, first);
    free(answer), free(input);
  }
  char *input = text_of("{\"path\":\"%s\"}", copy);
  world_fails(&w, "state.backup.import", input, "ApprovalRequired", "wait");
  pd_vault_lock(w.home);
  world_fails(&w, "state.backup.import", input, "VaultLocked", "unlock_vault");
  world_fails(&w, "state.backup.import", "{\"path\":\"/no/such\"}", "VaultLocked", "unlock_vault");
  for (size_t i = 0; i < 7; i++) free(paths[i]);
  pd_buf_done(&bytes);
  free(id), free(copy), free(first), free(foreign), free(input);
  temp_folder_free(away);
  world_close(&w);
}

static void backup_export__before_approval_an_agent_learns_nothing_about_the_hosts_files(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *paths[7];
  make_paths(away, paths);
  for (size_t i = 0; i < 14; i++) {
    char *input = text_of("{\"backup_id\":\"%s\",\"path\":\"%s%s\"}", id, paths[i / 2], i % 2 ? "/" : "");
    w.is_operator = false;
    world_fails(&w, "state.backup.export", input, "ApprovalRequired", "wait");
    char *named = text_of("{\"approval_id\":%s}", world_out(&w, "error.details.approval_id"));
    world_ok(&w, "approvals.show", named);
    assert_string_equal(world_out(&w, "approval.resolved"), "");
    world_ok(&w, "approvals.list", "{}");
    assert_null(strstr((const char *)w.out.data, "exported_path"));
    w.is_operator = true;
    world_ok(&w, "approvals.show", named);
    assert_string_not_equal(world_out(&w, "approval.resolved.exported_path"), "");
    if (i == 11) { /* approved, it says what is wrong with the path */
      world_ok(&w, "approvals.approve", named);
      w.is_operator = false;
      world_fails(&w, "state.backup.export", input, "IoError", "check_path");
    }
    free(input), free(named);
  }
  temp_folder_free(away);
  for (size_t i = 0; i < 7; i++) free(paths[i]);
  free(id);
  world_close(&w);
}

/* A request that waits stays the same, whatever appears at its path meanwhile; made, it is bound to what was shown. */
static void backup_export__a_waiting_request_does_not_tell_what_changes_on_the_host(void **state)
{
  (void)state;
  world w;
  open_with_state(&w);
  char *id = create(&w, "{}"), *away = temp_folder_new(), *path = text_of("%s/later", away);
  char *input = text_of("{\"backup_id\":\"%s\",\"path\":\"%s\"}", id, path);
  w.is_operator = false;
  world_fails(&w, "state.backup.export", input, "ApprovalRequired", "wait");
  char *first = strdup(world_out(&w, "error.details.approval_id")), *named = text_of("{\"approval_id\":%s}", first);
  assert_int_equal(mkdir(path, 0700), 0);
  world_fails(&w, "state.backup.export", input, "ApprovalRequired", "wait");
  assert_string_equal(world_out(&w, "error.details.approval_id"), first);
  w.is_operator = true;
  world_ok(&w, "approvals.approve", named);
  w.is_operator = false;
  world_fails(&w, "state.backup.export", input, "ApprovalStale", NULL); /* it would go into the folder, and that was not shown */
  temp_folder_free(away);
  free(id), free(path), free(input), free(first), free(named);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(backup_export__in_path__a_folder_keeps_the_name_a_file_gets_it),
    cmocka_unit_test(backup_export__in_backup_id__chooses_the_backup),
    cmocka_unit_test(backup_export__out_exported_path__is_the_full_path),
    cmocka_unit_test(backup_export__out_size_bytes__is_the_size_of_the_file),
    cmocka_unit_test(backup_export__effect_1__copies_the_file_also_while_the_vault_is_locked),
    cmocka_unit_test(backup_export__err_BackupNotFound__an_unknown_id),
    cmocka_unit_test(backup_export__err_DecryptionFailed__a_damaged_header_is_not_sent_away),
    cmocka_unit_test(backup_export__err_IoError__paths_that_cannot_be_written),
    cmocka_unit_test(backup_export__err_DecryptionFailed__a_damaged_header_is_not_copied),
    cmocka_unit_test(backup_import__brings_a_backup_to_another_home_that_restores_it),
    cmocka_unit_test(backup_import__another_homes_of_the_same_second_gets_a_name_of_its_own),
    cmocka_unit_test(backup_import__err_IoError__paths_that_cannot_be_read),
    cmocka_unit_test(backup_import__err_DecryptionFailed__takes_nothing_that_is_damaged_or_no_backup),
    cmocka_unit_test(backup_import__err_VaultLocked__takes_nothing_unverified),
    cmocka_unit_test(backup_verify__says_what_is_in_it),
    cmocka_unit_test(backup_verify__err_BackupNotFound__an_unknown_id),
    cmocka_unit_test(backup_verify__err_DecryptionFailed__a_flipped_bit_in_header_or_body),
    cmocka_unit_test(backup_verify__err_VaultLocked__without_a_key),
    cmocka_unit_test(backup__drafts_that_died_are_swept_away),
    cmocka_unit_test(backup_import__before_approval_an_agent_learns_nothing_about_the_hosts_files),
    cmocka_unit_test(backup_export__before_approval_an_agent_learns_nothing_about_the_hosts_files),
    cmocka_unit_test(backup_export__a_waiting_request_does_not_tell_what_changes_on_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
