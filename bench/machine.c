/* machine.c: see machine.h. */
#include "machine.h"

#include <git2.h>
#include <lmdb.h>
#include <mntent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void read_cpu(bench_machine *out)
{
  char text[512];
  snprintf(out->cpu, sizeof(out->cpu), "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  while (fgets(text, sizeof(text), file)) {
    char *value = strchr(text, ':');
    if (strncmp(text, "model name", 10) != 0 || !value) continue;
    value += strspn(value, ": \t");
    value[strcspn(value, "\n")] = 0;
    snprintf(out->cpu, sizeof(out->cpu), "%.120s", value);
    break;
  }
  fclose(file);
}

static bool is_under(const char *path, const char *folder)
{
  size_t size = strlen(folder);
  if (strncmp(path, folder, size) != 0) return false;
  return folder[size - 1] == '/' || path[size] == '/' || path[size] == 0;
}

/* The mount with the longest name that the folder is under; of equals the last, which covers the others. */
static void read_file_system(const char *dir, bench_machine *out)
{
  char *real = realpath(dir, NULL);
  size_t longest = 0;
  snprintf(out->file_system, sizeof(out->file_system), "unknown");
  FILE *mounts = setmntent("/proc/self/mounts", "re");
  for (struct mntent *m; real && mounts && (m = getmntent(mounts));) {
    size_t size = strlen(m->mnt_dir);
    if (size == 0 || size < longest || !is_under(real, m->mnt_dir)) continue;
    longest = size;
    snprintf(out->file_system, sizeof(out->file_system), "%.40s (%.80s)", m->mnt_type, m->mnt_fsname);
    out->is_memory = strcmp(m->mnt_type, "tmpfs") == 0 || strcmp(m->mnt_type, "ramfs") == 0;
  }
  if (mounts) endmntent(mounts);
  free(real);
}

void bench_machine_read(const char *dir, bench_machine *out)
{
  struct utsname name;
  time_t now = time(NULL);
  struct tm tm;
  int git_major = 0, git_minor = 0, git_patch = 0, lmdb_major, lmdb_minor, lmdb_patch;
  *out = (bench_machine){0};
  gmtime_r(&now, &tm);
  strftime(out->date, sizeof(out->date), "%Y-%m-%d %H:%M UTC", &tm);
  read_cpu(out);
  out->core_count = sysconf(_SC_NPROCESSORS_ONLN);
  if (uname(&name) == 0)
    snprintf(out->kernel, sizeof(out->kernel), "%.30s %.60s %.30s", name.sysname, name.release, name.machine);
  else
    snprintf(out->kernel, sizeof(out->kernel), "unknown");
  read_file_system(dir, out);
  git_libgit2_version(&git_major, &git_minor, &git_patch);
  mdb_version(&lmdb_major, &lmdb_minor, &lmdb_patch);
  snprintf(out->versions, sizeof(out->versions), "perdure %s, SQLite %s, LMDB %d.%d.%d, libgit2 %d.%d.%d", pd_version(),
           sqlite3_libversion(), lmdb_major, lmdb_minor, lmdb_patch, git_major, git_minor, git_patch);
}
