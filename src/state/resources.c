/* resources.c: see resources.h. Linux tells these in /proc; elsewhere they stay 0. */
#include "state/resources.h"

#include "base/base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number behind `name` in a file of lines "Name:   123 kB"; 0 if it is not there. */
static uint64_t number_in(const char *path, const char *name)
{
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  char line[256];
  uint64_t number = 0;
  size_t size = strlen(name);
  while (fgets(line, sizeof line, f))
    if (strncmp(line, name, size) == 0 && line[size] == ':') {
      number = strtoull(line + size + 1, NULL, 10);
      break;
    }
  fclose(f);
  return number;
}

static uint64_t open_files(void)
{
  DIR *dir = opendir("/proc/self/fd");
  if (!dir) return 0;
  uint64_t count = 0;
  for (const struct dirent *entry; (entry = readdir(dir));) count += entry->d_name[0] != '.';
  closedir(dir);
  return count ? count - 1 : 0; /* without the folder's own */
}

static uint64_t uptime_s(void)
{
  FILE *f = fopen("/proc/uptime", "re");
  if (!f) return 0;
  char line[64] = "";
  uint64_t seconds = fgets(line, sizeof line, f) ? strtoull(line, NULL, 10) : 0;
  fclose(f);
  return seconds;
}

static void write_process(pd_json_writer *w)
{
  struct rusage used = {0};
  getrusage(RUSAGE_SELF, &used);
  pd_json_key(w, "process");
  pd_json_open(w, '{');
  pd_json_put_number(w, "pid", (uint64_t)getpid());
  pd_json_put_number(w, "cpu_user_ms", (uint64_t)used.ru_utime.tv_sec * 1000 + (uint64_t)used.ru_utime.tv_usec / 1000);
  pd_json_put_number(w, "cpu_system_ms", (uint64_t)used.ru_stime.tv_sec * 1000 + (uint64_t)used.ru_stime.tv_usec / 1000);
  pd_json_put_number(w, "memory_bytes", number_in("/proc/self/status", "VmRSS") * 1024);
  pd_json_put_number(w, "memory_peak_bytes", (uint64_t)used.ru_maxrss * 1024);
  pd_json_put_number(w, "threads", number_in("/proc/self/status", "Threads"));
  pd_json_put_number(w, "open_files", open_files());
  pd_json_close(w, '}');
}

void pd_resources_write(pd_json_writer *w)
{
  double loads[3] = {0};
  int count = getloadavg(loads, 3);
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  write_process(w);
  pd_json_key(w, "system");
  pd_json_open(w, '{');
  pd_json_put_number(w, "cpus", cpus > 0 ? (uint64_t)cpus : 0);
  pd_json_key(w, "load"); /* over 1, 5 and 15 minutes */
  pd_json_open(w, '[');
  for (int i = 0; i < count; i++) {
    char text[32];
    snprintf(text, sizeof text, "%.2f", loads[i]);
    for (char *at = text; *at; at++)
      if (*at == ',') *at = '.'; /* the host program may have set a locale */
    pd_json_value(w, (pd_json){pd_text(text), PD_JSON_NUMBER});
  }
  pd_json_close(w, ']');
  pd_json_put_number(w, "memory_total_bytes", number_in("/proc/meminfo", "MemTotal") * 1024);
  pd_json_put_number(w, "memory_available_bytes", number_in("/proc/meminfo", "MemAvailable") * 1024);
  pd_json_put_number(w, "uptime_s", uptime_s());
  pd_json_close(w, '}');
}
