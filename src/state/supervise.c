/*
 * supervise.c: who supervises which agent: HOME/supervise/AGENT.lock and AGENT.json.
 *
 * P1  The lock (of the open file, not of the process: F_OFD_SETLK) is held by one supervisor, and by what it forked and has not exec'ed
 *     yet. Who only asks takes no lock, so that asking never keeps a supervisor from starting.
 * P2  The note is replaced as a whole. A note that says "running" or "waiting" while nobody holds the lock is of one that was lost.
 * P3  No password is ever written.
 */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "state/home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <perdure/supervise.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER "supervise"
#define NOTE_SIZE_MAX ((size_t)64 * 1024)

struct pd_supervisor {
  int fd; /* of the lock */
  char note[PATH_MAX + PD_NAME_SIZE_MAX + 8];
};

static const char *const names[] = {"running", "waiting", "ended", "stopped", "gave_up", "lost", NULL};

const char *pd_supervised_name(pd_supervised_state state)
{
  return (size_t)state < COUNT_OF(names) - 1 ? names[state] : "?";
}

/* ---- the lock ---- */

static struct flock whole_file(short type)
{
  return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

/* Does somebody hold the lock at `path`? */
static bool is_held(const char *path)
{
  CLEANUP(pd_fd_done) int fd = open(path, O_RDWR | O_CLOEXEC);
  struct flock lock = whole_file(F_WRLCK);
  return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static pd_code taken(pd_home *home, const char *agent, pd_error *err)
{
  pd_supervised now;
  char who[48] = "";
  if (pd_supervised_read(home, agent, &now, NULL) == PD_OK && now.supervisor_pid)
    snprintf(who, sizeof who, " (process %llu)", (unsigned long long)now.supervisor_pid);
  return pd_error_named(err, PD_CONFLICT, "AgentSupervised", "agent '%s' is supervised already%s", agent, who);
}

static pd_code take_lock(pd_home *home, const char *agent, const char *path, int *out_fd, pd_error *err)
{
  struct flock lock = whole_file(F_WRLCK);
  *out_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (*out_fd < 0) return pd_file_refused(err, "open", path);
  if (fcntl(*out_fd, F_OFD_SETLK, &lock) == 0) return PD_OK;
  if (errno == EAGAIN || errno == EACCES) return taken(home, agent, err);
  return pd_file_refused(err, "lock", path);
}

pd_code pd_supervisor_open(pd_home *home, const char *agent, pd_supervisor **out, pd_error *err)
{
  char folder[PATH_MAX], path[PATH_MAX + PD_NAME_SIZE_MAX + 8];
  TRY(pd_agent_check(agent, err));
  TRY(pd_home_folder(home, FOLDER, "supervisors", folder, sizeof folder, err));
  pd_supervisor *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a supervisor");
  snprintf(path, sizeof path, "%s/%s.lock", folder, agent);
  snprintf(made->note, sizeof made->note, "%s/%s.json", folder, agent);
  pd_code code = take_lock(home, agent, path, &made->fd, err);
  if (code) {
    pd_supervisor_close(made);
    return code;
  }
  *out = made;
  return PD_OK;
}

void pd_supervisor_close(pd_supervisor *supervisor)
{
  if (!supervisor) return;
  pd_fd_done(&supervisor->fd);
  free(supervisor);
}

/* ---- the note ---- */

static const pd_bind members[] = {
  {"state", PD_BIND_NAME, PD_BIND_AT(pd_supervised, state), .names = names},
  {"supervisor_pid", PD_BIND_NUMBER, PD_BIND_AT(pd_supervised, supervisor_pid)},
  {"pid", PD_BIND_NUMBER, PD_BIND_AT(pd_supervised, pid)},
  {"restarts", PD_BIND_NUMBER, PD_BIND_AT(pd_supervised, restarts)},
  {"started_ms", PD_BIND_MS, PD_BIND_AT(pd_supervised, started_ms)},
  {"storage", PD_BIND_TEXT, PD_BIND_AT(pd_supervised, storage)},
  {"config", PD_BIND_TEXT, PD_BIND_AT(pd_supervised, config)},
};

pd_code pd_supervisor_note(pd_supervisor *supervisor, const pd_supervised *now, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_supervised note = *now;
  char *start = strstr(note.storage, "://"), *at = start ? strrchr(start, '@') : NULL;
  note.supervisor_pid = (uint64_t)getpid();
  if (at) memmove(start + 3, at + 1, strlen(at)); /* without USER:PASSWORD@ */
  pd_bind_object(&w, members, COUNT_OF(members), &note);
  TRY(w.code);
  TRY(pd_buf_byte(&text, '\n', err));
  return pd_file_write(supervisor->note, pd_buf_bytes(&text), false, err);
}

pd_code pd_supervised_read(pd_home *home, const char *agent, pd_supervised *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char path[PATH_MAX + PD_NAME_SIZE_MAX + 32];
  TRY(pd_agent_check(agent, err));
  if (!home->folder) return pd_error_set(err, PD_NOT_FOUND, "agent '%s' was never supervised", agent);
  snprintf(path, sizeof path, "%s/" FOLDER "/%s.json", home->folder, agent);
  pd_code code = pd_file_read(path, NOTE_SIZE_MAX, &text, err);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_NOT_FOUND, "agent '%s' was never supervised", agent);
  TRY(code);
  *out = (pd_supervised){0};
  if (pd_bind_parse(pd_buf_bytes(&text), members, COUNT_OF(members), PD_BIND_LOOSE, out, NULL))
    return pd_error_set(err, PD_CORRUPT, "%.300s is no note of a supervisor", path);
  snprintf(path, sizeof path, "%s/" FOLDER "/%s.lock", home->folder, agent);
  if (is_held(path)) return PD_OK;
  out->supervisor_pid = out->pid = 0;
  if (out->state == PD_SUPERVISED_RUNNING || out->state == PD_SUPERVISED_WAITING) out->state = PD_SUPERVISED_LOST;
  return PD_OK;
}
