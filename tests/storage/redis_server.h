/* redis_server.h: a real redis-server for one test, in a folder of its own, on a free port and on a socket. */
#ifndef STORAGE_REDIS_SERVER_H
#define STORAGE_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct redis_server {
  char *folder;
  int port;
  bool is_tls; /* the port is TLS; the socket is plain */
  pid_t pid;
} redis_server;

/* Is the program installed? */
bool redis_server_exists(void);
/* A folder and a port; nothing runs yet. */
redis_server *redis_server_new(void);
/* Start it with these settings (a NULL behind the last), and wait until it answers. The settings come behind `--save "" --appendonly
 * no`. */
void redis_server_start(redis_server *server, const char *const *settings);
/* kill -9, and wait for its end. */
void redis_server_kill(redis_server *server);
/* Kill, remove, free. */
void redis_server_free(redis_server *server);
/* redis+unix://…, rediss:// or redis://…, with `options` behind the '?'; freed by the caller. */
char *redis_server_uri(const redis_server *server, const char *options);
char *redis_server_socket_uri(const redis_server *server, const char *options);
/* One command over the socket, printf-like as hiredis has it; the answer as text ("OK", "1", "" for nil), freed by the caller. */
char *redis_server_ask(const redis_server *server, const char *fmt, ...);
/* It stands still, and hears what was said meanwhile when it goes on. */
void redis_server_pause(const redis_server *server);
void redis_server_resume(const redis_server *server);
/* Make it deaf for so long; returns when it is. For those who try again until it hears. */
void redis_server_sleep(const redis_server *server, const char *seconds);

#endif
