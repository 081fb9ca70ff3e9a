/* redis.c: see redis.h. */
#include "redis.h"

#include <fcntl.h>
#include <perdure/storage.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/error.h"

#define START_TRIES 500 /* of 20 ms */

/* In the child. Rewriting the append-only file by itself would make it smaller than what was written. */
__attribute__((noreturn)) static void run_server(const bench_redis *redis, const char *socket_path)
{
  const char *const args[] = {"redis-server",
                              "--dir",
                              redis->folder,
                              "--unixsocket",
                              socket_path,
                              "--port",
                              "0",
                              "--save",
                              "",
                              "--appendonly",
                              "yes",
                              "--appendfsync",
                              "everysec",
                              "--auto-aof-rewrite-percentage",
                              "0",
                              NULL};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int out = open("/dev/null", O_WRONLY);
  if (out < 0) _exit(126);
  dup2(out, 1), dup2(out, 2);
  execvp("redis-server", (char *const *)args);
  _exit(127);
}

static pd_code wait_for(bench_redis *redis, pd_error *err)
{
  for (int i = 0; i < START_TRIES; i++) {
    pd_storage *storage = NULL;
    pd_storage_durability durability;
    if (waitpid(redis->pid, NULL, WNOHANG) == redis->pid) {
      redis->pid = 0;
      return pd_error_set(err, PD_STORAGE, "redis-server did not start: is it installed?");
    }
    pd_code code = pd_storage_open(redis->uri, &storage, err);
    if (!code) code = pd_storage_durability_get(storage, &durability, err);
    pd_storage_close(storage);
    if (!code) return PD_OK;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  return pd_error_set(err, PD_STORAGE, "redis-server does not answer");
}

pd_code bench_redis_start(const char *parent, bench_redis *out, pd_error *err)
{
  char socket_path[80];
  TRY(bench_folder_new(parent, "redis", out->folder, err));
  snprintf(out->nest, sizeof(out->nest), "/tmp/perdure-bench-XXXXXX");
  if (!mkdtemp(out->nest)) {
    out->nest[0] = 0;
    return pd_error_set(err, PD_STORAGE, "no folder in /tmp for a socket");
  }
  snprintf(socket_path, sizeof(socket_path), "%s/socket", out->nest);
  snprintf(out->uri, sizeof(out->uri), "redis+unix://%s", socket_path);
  out->pid = fork();
  if (out->pid < 0) {
    out->pid = 0;
    return pd_error_set(err, PD_STORAGE, "no process for redis-server");
  }
  if (!out->pid) run_server(out, socket_path);
  return wait_for(out, err);
}

void bench_redis_stop(bench_redis *redis)
{
  if (redis->pid) {
    kill(redis->pid, SIGKILL);
    waitpid(redis->pid, NULL, 0);
  }
  redis->pid = 0;
  if (redis->nest[0]) (void)!bench_folder_remove(redis->nest, NULL);
}
