/* folder_roots.c: folders.roots. Rules R1 and R2 are in folder_roots.h. */
#include "state/folder_roots.h"

#include "base/base.h"
#include "base/beneath.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct pd_folder_roots {
  pthread_mutex_t lock;
  char *list; /* clean or nearly so, with commas in between; NULL: none */
};

/* ---- paths ---- */

bool pd_path_clean(const char *given, char out[PATH_MAX])
{
  size_t used = 0;
  if (given[0] != '/') return false;
  while (*given) {
    given += strspn(given, "/");
    size_t size = strcspn(given, "/");
    if (size == 2 && given[0] == '.' && given[1] == '.') return false;
    if (size && !(size == 1 && given[0] == '.')) {
      if (used + size + 2 > PATH_MAX) return false;
      out[used++] = '/';
      memcpy(out + used, given, size);
      used += size;
    }
    given += size;
  }
  if (!used) out[used++] = '/';
  out[used] = 0;
  return true;
}

bool pd_path_is_within(const char *path, const char *folder)
{
  size_t size = strlen(folder);
  if (size == 1) return path[0] == '/';
  return strncmp(path, folder, size) == 0 && (path[size] == '/' || !path[size]);
}

/* ---- the setting ---- */

pd_code pd_folder_roots_new(pd_home *home, pd_folder_roots **out, pd_error *err)
{
  const char *list = home->config.folders_roots;
  pd_folder_roots *roots = calloc(1, sizeof *roots);
  if (roots && list) roots->list = strdup(list);
  if (!roots || (list && !roots->list)) {
    free(roots);
    return pd_error_memory(err, "the roots of folders");
  }
  pthread_mutex_init(&roots->lock, NULL);
  *out = roots;
  return PD_OK;
}

void pd_folder_roots_free(pd_folder_roots *roots)
{
  if (!roots) return;
  pthread_mutex_destroy(&roots->lock);
  free(roots->list);
  free(roots);
}

pd_code pd_home_reload_roots(pd_home *home, pd_error *err)
{
  CLEANUP(pd_config_done) pd_config now = {0};
  TRY(pd_config_load(&now, home->folder, home->config_file, err));
  pthread_mutex_lock(&home->roots->lock);
  char *before = home->roots->list;
  home->roots->list = now.folders_roots;
  pthread_mutex_unlock(&home->roots->lock);
  now.folders_roots = before; /* freed with the rest */
  return PD_OK;
}

/* ---- opening ---- */

/* R1 */
static int open_below(const char *root, const char *path)
{
  const char *rest = path + strlen(root);
  int top = pd_open_straight(root, O_PATH | O_DIRECTORY);
  if (top < 0) {
    if (errno == ELOOP || errno == ENOENT || errno == ENOTDIR || errno == EACCES) errno = EPERM; /* it is no root now */
    return -1;
  }
  rest += strspn(rest, "/");
  int folder = pd_open_beneath(top, *rest ? rest : ".", O_RDONLY | O_DIRECTORY);
  int why = errno == ELOOP || errno == EXDEV ? EPERM : errno;
  close(top);
  errno = why;
  return folder;
}

/* Below one of several roots; the first that is a reason other than EPERM is told. */
static int open_below_any(char *list, const char *path)
{
  char root[PATH_MAX], *rest = NULL;
  int why = EPERM, folder = -1;
  for (const char *one = strtok_r(list, ",", &rest); one && folder < 0; one = strtok_r(NULL, ",", &rest)) {
    if (!pd_path_clean(one, root) || !pd_path_is_within(path, root)) continue;
    folder = open_below(root, path);
    if (folder < 0 && why == EPERM) why = errno;
  }
  errno = why;
  return folder;
}

int pd_folder_roots_open(pd_home *home, const char *path)
{
  pthread_mutex_lock(&home->roots->lock);
  char *list = home->roots->list ? strdup(home->roots->list) : NULL;
  bool has_memory = list || !home->roots->list;
  pthread_mutex_unlock(&home->roots->lock);
  int folder = list ? open_below_any(list, path) : -1, why = list ? errno : has_memory ? EPERM : ENOMEM;
  free(list);
  errno = why;
  return folder;
}
