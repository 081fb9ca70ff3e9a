/*
 * place.c: an agent's store that is kept elsewhere than in its home: HOME/AGENT.place is one line, the URI of the home that has it.
 *
 * PLC-1  Whoever opens the store by its home and name gets the one that is placed; the place of a place is not followed.
 * PLC-2  An agent has one store: who has one in the home is not placed, and a place is not changed. Moving is the operator's.
 */
#include "engine/place.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCHEME "sqlite:"
#define SUFFIX ".place"

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
    return pd_error_set(err, PD_CORRUPT, "%.300s names no store", path);
  snprintf(out, PD_PLACE_SIZE, "%.*s", (int)text.size - 1, (const char *)text.data);
  return PD_OK;
}

static bool is_same_folder(const char *a, const char *b)
{
  char x[PATH_MAX], y[PATH_MAX];
  return realpath(a + strlen(SCHEME), x) && realpath(b + strlen(SCHEME), y) && strcmp(x, y) == 0;
}

/* May it be placed there? PD_EXISTS: it is there already, and nothing is to be done. */
static pd_code check_place(const char *uri, const char *agent, const char *to, pd_error *err)
{
  char path[PATH_MAX], now[PD_PLACE_SIZE];
  if (!path_of(uri, agent, ".db", path))
    return pd_error_set(err, PD_UNSUPPORTED, "stores of the home '%.200s' cannot be placed elsewhere", uri ? uri : "");
  if (strncmp(to, SCHEME, strlen(SCHEME)) != 0 || !to[strlen(SCHEME)] || strlen(to) >= PD_PLACE_SIZE - 1 || strchr(to, '\n'))
    return pd_error_set(err, PD_INVALID, "a store can be placed in sqlite:DIR, not in '%.200s'", to);
  pd_code code = pd_store_placed(uri, agent, now, err);
  if (code == PD_OK && strcmp(now, to) == 0) return PD_EXISTS;
  if (code == PD_OK)
    return pd_error_set(err, PD_CONFLICT, "the store of agent '%s' is placed in %.180s, not in %.180s: move it first", agent, now, to);
  if (code != PD_NOT_FOUND) return code;
  if (access(path, F_OK) == 0)
    return pd_error_set(err, PD_CONFLICT, "agent '%s' has a store in its home already (%.300s): move it first", agent, path);
  return PD_OK;
}

pd_code pd_store_place(const char *uri, const char *agent, const char *to, pd_error *err)
{
  char path[PATH_MAX], line[PD_PLACE_SIZE + 1];
  pd_store *store = NULL;
  TRY(pd_agent_check(agent, err));
  pd_code code = check_place(uri, agent, to, err);
  if (code == PD_EXISTS) return PD_OK;
  TRY(code);
  TRY(pd_store_open(to, agent, NULL, &store, err)); /* a place that names nothing would look like a store that was lost */
  TRY(pd_store_close(store, err));
  if (is_same_folder(uri, to)) return PD_OK;
  (void)!path_of(uri, agent, SUFFIX, path);
  snprintf(line, sizeof line, "%s\n", to);
  return pd_file_write(path, pd_text(line), false, err);
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
