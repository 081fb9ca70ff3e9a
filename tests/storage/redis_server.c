/* redis_server.c: see redis_server.h. */
#include "storage/redis_server.h"

#include "support/temp_folder.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 64
#define START_TRIES 3000 /* of 20 ms */
#define PORT_FIRST 10000 /* and up: below those that the system gives to whoever asks for any */
#define PORT_COUNT 10000

bool redis_server_exists(void)
{
  return system("command -v redis-server >/dev/null 2>&1") == 0;
}

/* One that nobody has. Not one that the system chose and got back: it would be the next one's of another test. */
static int free_port(void)
{
  static unsigned asked;
  for (unsigned i = 0; i < PORT_COUNT; i++) {
    int port = PORT_FIRST + (int)(((unsigned)getpid() * 97 + asked++) % PORT_COUNT), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    bool is_free = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    if (is_free) return port;
  }
  abort();
}

redis_server *redis_server_new(void)
{
  redis_server *server = calloc(1, sizeof *server);
  server->folder = temp_folder_new();
  server->port = free_port();
  return server;
}

static redisContext *dial(const redis_server *server)
{
  char *path = text_of("%s/socket", server->folder);
  redisContext *line = redisConnectUnix(path);
  free(path);
  if (line && !line->err) return line;
  if (line) redisFree(line);
  return NULL;
}

static bool is_ready(const redis_server *server)
{
  redisContext *line = dial(server);
  if (!line) return false;
  redisReply *reply = redisCommand(line, "PING");
  bool is_up = reply && strncmp(reply->str, "LOADING", 7) != 0; /* NOAUTH is an answer too */
  if (reply) freeReplyObject(reply);
  redisFree(line);
  return is_up;
}

static void run_server(const redis_server *server, const char *const *settings)
{
  char port[16], *socket_path = text_of("%s/socket", server->folder);
  const char *args[ARGS_MAX] = {"redis-server",
                                "--dir",
                                server->folder,
                                "--unixsocket",
                                socket_path,
                                "--bind",
                                "127.0.0.1",
                                server->is_tls ? "--tls-port" : "--port",
                                port,
                                "--save",
                                "",
                                "--appendonly",
                                "no",
                                "--enable-debug-command",
                                "yes"};
  size_t count = 15;
  snprintf(port, sizeof port, "%d", server->port);
  if (server->is_tls) args[count++] = "--port", args[count++] = "0";
  while (settings && *settings) args[count++] = *settings++;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left behind if the test dies */
  int out = chdir(server->folder) ? -1 : open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (out < 0) _exit(126);
  dup2(out, 1), dup2(out, 2);
  execvp("redis-server", (char *const *)args);
  _exit(127);
}

void redis_server_start(redis_server *server, const char *const *settings)
{
  server->pid = fork();
  if (!server->pid) run_server(server, settings);
  for (int i = 0; i < START_TRIES; i++) {
    if (is_ready(server)) return;
    if (waitpid(server->pid, NULL, WNOHANG) == server->pid) break;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  fprintf(stderr, "# redis-server did not start; see %s/log\n", server->folder);
  abort();
}

void redis_server_kill(redis_server *server)
{
  if (!server->pid) return;
  kill(server->pid, SIGKILL);
  waitpid(server->pid, NULL, 0);
  server->pid = 0;
}

void redis_server_free(redis_server *server)
{
  if (!server) return;
  redis_server_kill(server);
  temp_folder_free(server->folder);
  free(server);
}

char *redis_server_uri(const redis_server *server, const char *options)
{
  return text_of("%s://127.0.0.1:%d/0?%s", server->is_tls ? "rediss" : "redis", server->port, options);
}

char *redis_server_socket_uri(const redis_server *server, const char *options)
{
  return text_of("redis+unix://%s/socket?%s", server->folder, options);
}

char *redis_server_ask(const redis_server *server, const char *fmt, ...)
{
  va_list args;
  redisContext *line = dial(server);
  if (!line) abort();
  va_start(args, fmt);
  redisReply *reply = redisvCommand(line, fmt, args);
  va_end(args);
  if (!reply) abort();
  char *text = reply->type == REDIS_REPLY_INTEGER ? text_of("%lld", reply->integer) : text_of("%s", reply->str ? reply->str : "");
  freeReplyObject(reply);
  redisFree(line);
  return text;
}

void redis_server_pause(const redis_server *server)
{
  int status;
  kill(server->pid, SIGSTOP);
  if (waitpid(server->pid, &status, WUNTRACED) != server->pid || !WIFSTOPPED(status)) abort();
}

void redis_server_resume(const redis_server *server)
{
  kill(server->pid, SIGCONT);
}

void redis_server_sleep(const redis_server *server, const char *seconds)
{
  redisContext *line = dial(server), *other = dial(server);
  int done = 0;
  if (!line || !other) abort();
  redisSetTimeout(other, (struct timeval){0, 20000});
  redisAppendCommand(line, "DEBUG SLEEP %s", seconds);
  while (!done) redisBufferWrite(line, &done);
  for (redisReply *reply; (reply = redisCommand(other, "PING"));) freeReplyObject(reply); /* until it does not answer any more */
  redisFree(other);
  redisFree(line);
}
