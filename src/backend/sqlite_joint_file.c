/* sqlite_joint_file.c: .joint and .joint.lock of a folder of stores; sqlite_joint.h has their bytes. */
#include "backend/sqlite_joint.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define PATH_SIZE 4400
#define FILE_SIZE_MAX ((size_t)64 << 20)
#define STATE_AT 16
#define PUBLISHED_AT 17

static const char magic[] = "perdure joint 1\n";

static pd_code path_of(const char *folder, const char *name, char out[PATH_SIZE], pd_error *err)
{
  if (snprintf(out, PATH_SIZE, "%s/%s", folder, name) < PATH_SIZE) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", folder);
}

void pd_joint_file_done(pd_joint_file *file)
{
  free(file->stores);
  *file = (pd_joint_file){0};
}

bool pd_joint_file_is_there(const char *folder)
{
  char path[PATH_SIZE];
  return path_of(folder, PD_JOINT_FILE, path, NULL) == PD_OK && access(path, F_OK) == 0;
}

/* ---- reading ---- */

/* The line at *text, without its end, and *text behind it; false if there is none. */
static bool take_line(char **text, char **out)
{
  char *end = strchr(*text, '\n');
  if (!end) return false;
  *end = 0;
  *out = *text;
  *text = end + 1;
  return true;
}

static bool take_store(const char *line, pd_joint_store *out)
{
  char *end;
  errno = 0;
  out->tail = strtoull(line, &end, 10);
  if (errno || end == line || *end != ' ' || out->tail > PD_LOCK_TAIL_MAX || strlen(end + 1) > PD_NAME_SIZE_MAX) return false;
  strcpy(out->name, end + 1);
  return pd_agent_check(out->name, NULL) == PD_OK;
}

static bool take_stores(char *text, pd_joint_file *out)
{
  char *line;
  while (take_line(&text, &line)) {
    if (strcmp(line, "end") == 0) return !*text;
    if (!take_store(line, &out->stores[out->count++])) return false;
  }
  return false;
}

static pd_code parse(char *text, size_t size, pd_joint_file *out, pd_error *err)
{
  char *line, *rest = text + PUBLISHED_AT + 2;
  size_t lines = 0;
  bool is_right = size > PUBLISHED_AT + 2 && strlen(text) == size && memcmp(text, magic, sizeof magic - 1) == 0 &&
                  strchr("PC", text[STATE_AT]) && strchr("-+", text[PUBLISHED_AT]) && text[PUBLISHED_AT + 1] == '\n';
  if (is_right) is_right = take_line(&rest, &line) && strlen(line) < sizeof out->purpose;
  if (!is_right) return pd_error_set(err, PD_CORRUPT, "malformed");
  strcpy(out->purpose, line);
  for (const char *c = rest; *c; c++) lines += *c == '\n';
  out->stores = calloc(lines + 1, sizeof out->stores[0]);
  if (!out->stores) return pd_error_memory(err, "a joint commit");
  if (!take_stores(rest, out)) return pd_error_set(err, PD_CORRUPT, "malformed");
  out->is_there = true;
  out->is_committed = text[STATE_AT] == 'C';
  out->is_published = text[PUBLISHED_AT] == '+';
  return PD_OK;
}

pd_code pd_joint_file_read(const char *folder, pd_joint_file *out, pd_error *err)
{
  char path[PATH_SIZE];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  *out = (pd_joint_file){0};
  TRY(path_of(folder, PD_JOINT_FILE, path, err));
  pd_code code = pd_file_read(path, FILE_SIZE_MAX, &text, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  size_t size = text.size;
  TRY(pd_buf_byte(&text, 0, err));
  code = parse((char *)text.data, size, out, err);
  if (code) pd_joint_file_done(out);
  if (code != PD_CORRUPT) return code;
  return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: it tells which stores a restore changes; remove it only if none is under way",
                      path);
}

/* ---- writing ---- */

static pd_code encode(const pd_joint_file *file, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_printf(out, err, "%sP-\n%s\n", magic, file->purpose));
  for (size_t i = 0; i < file->count; i++)
    TRY(pd_buf_printf(out, err, "%llu %s\n", (unsigned long long)file->stores[i].tail, file->stores[i].name));
  return pd_buf_printf(out, err, "end\n");
}

pd_code pd_joint_file_write(const char *folder, const pd_joint_file *file, bool must_be_new, int *out_fd, pd_error *err)
{
  char path[PATH_SIZE];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(path_of(folder, PD_JOINT_FILE, path, err));
  TRY(encode(file, &text, err));
  TRY(pd_file_write(path, pd_buf_bytes(&text), must_be_new, err));
  *out_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  return *out_fd < 0 ? pd_file_refused(err, "open", path) : PD_OK;
}

static pd_code set_byte(int fd, off_t at, char byte, bool is_synced, const char *folder, pd_error *err)
{
  if (pwrite(fd, &byte, 1, at) == 1 && (!is_synced || fdatasync(fd) == 0)) return PD_OK;
  return pd_file_refused(err, "decide a joint commit in", folder);
}

/* A sync that failed may have reached the disk. Nobody has seen the decision yet (J3), so it is taken back: writing the byte again makes
 * its page dirty again, and a sync that succeeds then speaks of it. */
pd_code pd_joint_file_decide(int fd, const char *folder, pd_error *err)
{
  pd_code code = set_byte(fd, STATE_AT, 'C', true, folder, err);
  if (!code || !set_byte(fd, STATE_AT, 'P', true, folder, NULL)) return code;
  return pd_error_set(err, PD_OUTCOME_UNKNOWN,
                      "syncs of %.300s/" PD_JOINT_FILE " failed: whether its stores were changed is settled when one of them is written or "
                      "opened next; check the disk",
                      folder);
}

pd_code pd_joint_file_publish(int fd, const char *folder, pd_error *err)
{
  return set_byte(fd, PUBLISHED_AT, '+', false, folder, err);
}

static pd_code say(const char *folder, char state, pd_error *err)
{
  char path[PATH_SIZE];
  TRY(path_of(folder, PD_JOINT_FILE, path, err));
  CLEANUP(pd_fd_done) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno == ENOENT ? PD_OK : pd_file_refused(err, "open", path);
  return set_byte(fd, STATE_AT, state, true, folder, err);
}

pd_code pd_joint_file_say_committed(const char *folder, pd_error *err)
{
  return say(folder, 'C', err);
}

pd_code pd_joint_file_say_pending(const char *folder, pd_error *err)
{
  return say(folder, 'P', err);
}

pd_code pd_joint_file_remove(const char *folder, pd_error *err)
{
  char path[PATH_SIZE];
  TRY(path_of(folder, PD_JOINT_FILE, path, err));
  if (unlink(path) != 0 && errno != ENOENT) return pd_file_refused(err, "remove", path);
  return pd_folder_sync(path, err);
}

pd_code pd_joint_lock(const char *folder, int *out_fd, pd_error *err)
{
  char path[PATH_SIZE];
  TRY(path_of(folder, PD_JOINT_LOCK, path, err));
  *out_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (*out_fd < 0) return pd_file_refused(err, "open", path);
  while (flock(*out_fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    pd_code code = errno == EWOULDBLOCK ? PD_OK : pd_file_refused(err, "lock", path);
    pd_fd_done(out_fd);
    *out_fd = -1;
    return code;
  }
  return PD_OK;
}
