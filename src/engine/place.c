/*
 * place.c: an agent's store that is kept elsewhere than in its home: HOME/AGENT.place is one line, the URI of the home that has it.
 *
 * PLC-1  Whoever opens the store by its home and name gets the one that is placed; the place of a place is not followed.
 * PLC-2  An agent has one store: who has one in the home is not placed, and a place is not changed. Moving is the operator's.
 * PLC-3  A place is written under the flock of HOME/AGENT.lock, after a look that there is no HOME/AGENT.db. A backend makes a store under
 *        the same flock, after a look that there is no place. So of two that come at once, one gives way: whoever opens follows the place,
 *        whoever places is refused.
 * PLC-4  The store is made in its new place before the place is written: who is killed between them has changed nothing in the home, and
 *        the next try goes on with the store that is there.
 */
#include "engine/place.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/stores.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEME "sqlite:"
#define SUFFIX PD_PLACE_SUFFIX

/* Only a home with a folder has places. */
static bool path_of(const char *uri, const char *agent, const char *suffix, char out[PATH_MAX])
{
  if (!uri || strncmp(uri, SCHEME, strlen(SCHEME)) != 0 || pd_agent_check(agent, NULL)) return false;
  const char *folder = uri + strlen(SCHEME);
  return snprintf(out, PATH_MAX, "%.*s/%s%s", (int)strcspn(folder, "?"), folder, agent, suffix) < PATH_MAX;
}

pd_code pd_store_placed(const char *uri, const char *agent, char out[PD_PLACE_SIZE], pd_error *err)
{
  char path[PATH_MAX];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (!path_of(uri, agent, SUFFIX, path) || access(path, F_OK) != 0)
    return pd_error_set(err, PD_NOT_FOUND, "the store of agent '%.64s' is in its home", agent ? agent : "");
  TRY(pd_file_read(path, PD_PLACE_SIZE - 1, &text, err));
  if (text.size <= strlen(SCHEME) || memcmp(text.data, SCHEME, strlen(SCHEME)) != 0 || text.data[text.size - 1] != '\n' ||
      memchr(text.data, 0, text.size))
    return pd_error_set(err, PD_CORRUPT, "the file %s" SUFFIX " of the home names no store", agent);
  snprintf(out, PD_PLACE_SIZE, "%.*s", (int)text.size - 1, (const char *)text.data);
  return PD_OK;
}

static bool real_folder(const char *uri, char out[PATH_MAX])
{
  char folder[PATH_MAX];
  const char *from = uri + strlen(SCHEME);
  return snprintf(folder, sizeof folder, "%.*s", (int)strcspn(from, "?"), from) < PATH_MAX && realpath(folder, out);
}

static bool is_same_folder(const char *a, const char *b)
{
  char x[PATH_MAX], y[PATH_MAX];
  return strcmp(a, b) == 0 || (real_folder(a, x) && real_folder(b, y) && strcmp(x, y) == 0);
}

/* Are these an agent and a folder that a store can be placed in? */
static pd_code check_request(const char *uri, const char *agent, const char *to, pd_error *err)
{
  char path[PATH_MAX];
  TRY(pd_agent_check(agent, err));
  if (strcmp(agent, PD_STORE_SHARED) == 0 || strcmp(agent, PD_STORE_SYSTEM) == 0)
    return pd_error_set(err, PD_INVALID, "the store '%s' belongs to the home and stays in it", agent);
  if (!path_of(uri, agent, ".db", path))
    return pd_error_set(err, PD_UNSUPPORTED, "stores of the home '%.200s' cannot be placed elsewhere", uri ? uri : "");
  if (!to || strncmp(to, SCHEME "/", strlen(SCHEME) + 1) != 0 || strlen(to) >= PD_PLACE_SIZE - 1 || strchr(to, '\n'))
    return pd_error_set(err, PD_INVALID, "a store can be placed in sqlite:DIR with an absolute path, not in '%.200s'", to ? to : "");
  return PD_OK;
}

/* May it be placed there? PD_EXISTS: it is there already, and nothing is to be done. */
static pd_code check_place(const char *uri, const char *agent, const char *to, pd_error *err)
{
  char path[PATH_MAX], now[PD_PLACE_SIZE];
  pd_code code = pd_store_placed(uri, agent, now, err);
  if (code == PD_OK && is_same_folder(now, to)) return PD_EXISTS;
  if (code == PD_OK)
    return pd_error_set(err, PD_CONFLICT, "the store of agent '%s' is placed in %.180s, not in %.180s: move it first", agent, now, to);
  if (code != PD_NOT_FOUND) return code;
  if (path_of(uri, agent, ".db", path) && access(path, F_OK) == 0 && !is_same_folder(uri, to))
    return pd_error_set(err, PD_CONFLICT, "agent '%s' has a store in its home already (%.300s): move it first", agent, path);
  code = pd_store_placed(to, agent, now, err);
  if (code == PD_OK) /* PLC-1: it would not be followed */
    return pd_error_set(err, PD_CONFLICT, "%.180s has placed the store of agent '%s' in %.180s: name that one", to, agent, now);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* The lock under which stores are made (PLC-3). Who removes a store by hand removes its lock file, too: then it is another's turn. */
static pd_code lock_store(const char *uri, const char *agent, int *out_fd, pd_error *err)
{
  char path[PATH_MAX];
  struct stat here, named;
  if (!path_of(uri, agent, ".lock", path)) return pd_error_set(err, PD_LIMIT, "the path of the home is too long");
  for (;;) {
    pd_fd_done(out_fd);
    *out_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*out_fd < 0) return pd_file_refused(err, "open", path);
    while (flock(*out_fd, LOCK_EX) != 0)
      if (errno != EINTR) return pd_file_refused(err, "lock", path);
    if (fstat(*out_fd, &here) == 0 && stat(path, &named) == 0 && here.st_ino == named.st_ino && here.st_dev == named.st_dev) return PD_OK;
  }
}

/* With its store there: lead to it. */
static pd_code write_place(const char *uri, const char *agent, const char *to, pd_error *err)
{
  char path[PATH_MAX], line[PD_PLACE_SIZE + 1];
  CLEANUP(pd_fd_done) int lock = -1;
  TRY(lock_store(uri, agent, &lock, err));
  pd_code code = check_place(uri, agent, to, err); /* again: now nobody can come between */
  if (code) return code == PD_EXISTS ? PD_OK : code;
  if (!path_of(uri, agent, SUFFIX, path)) return pd_error_set(err, PD_LIMIT, "the path of the home is too long");
  snprintf(line, sizeof line, "%s\n", to);
  return pd_file_write(path, pd_text(line), true, err);
}

pd_code pd_store_place(const char *uri, const char *agent, const char *to, pd_error *err)
{
  char folder[PATH_MAX];
  pd_store *store = NULL;
  TRY(check_request(uri, agent, to, err));
  pd_code code = check_place(uri, agent, to, err);
  if (code) return code == PD_EXISTS ? PD_OK : code;
  if (path_of(uri, agent, "", folder)) *strrchr(folder, '/') = 0;
  TRY(pd_folders_make(folder, err));
  TRY(pd_store_open(to, agent, NULL, &store, err)); /* PLC-4; a place that names nothing would look like a store that was lost */
  TRY(pd_store_close(store, err));
  return is_same_folder(uri, to) ? PD_OK : write_place(uri, agent, to, err);
}

pd_code pd_places_each(const char *uri, void (*visit)(void *ctx, const char *agent), void *ctx, pd_error *err)
{
  char path[PATH_MAX], agent[PD_NAME_SIZE_MAX + 1];
  if (!path_of(uri, "x", "", path)) return PD_OK;
  *strrchr(path, '/') = 0;
  DIR *dir = opendir(path);
  if (!dir) return PD_OK; /* the listing of stores has told it */
  for (const struct dirent *entry; (entry = readdir(dir));) {
    size_t size = strlen(entry->d_name), end = strlen(SUFFIX);
    if (size <= end || size - end > PD_NAME_SIZE_MAX || strcmp(entry->d_name + size - end, SUFFIX) != 0) continue;
    snprintf(agent, sizeof agent, "%.*s", (int)(size - end), entry->d_name);
    if (pd_agent_check(agent, NULL) == PD_OK) visit(ctx, agent);
  }
  closedir(dir);
  (void)err;
  return PD_OK;
}
