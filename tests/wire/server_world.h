/* server_world.h: a server in a process of its own on a home of its own, and a client that can do it right and wrong. */
#ifndef TESTS_WIRE_SERVER_WORLD_H
#define TESTS_WIRE_SERVER_WORLD_H

#include <perdure/perdure.h>
#include <sys/types.h>

#define SERVED_ARGS_MAX 24
#define SERVED_PATIENCE_S 60 /* what comes after all comes within it, on a machine that does other things */

/* A sanitizer keeps what was freed: what is said of memory does not hold then. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SERVED_IS_SANITIZED true
#else
#define SERVED_IS_SANITIZED false
#endif

typedef struct served {
  pid_t pid;
  char *folder; /* with home/, log and socket in it */
  int port;
  const char *args[SERVED_ARGS_MAX];
} served;

/* The perdure that is tested: argv[1] of the test program. */
extern const char *served_binary;
/* Called in the new process before it becomes the server; NULL: nothing is. */
extern void (*served_prepare)(void);
/* Its --listen; NULL: none is given. */
extern const char *served_listen;

/* Start `perdure serve --home FOLDER/home --listen 127.0.0.1:0 ARGS…` and wait until it serves. ARGS end with NULL; "@NAME" becomes
 * FOLDER/NAME. Aborts the program if it does not come up. */
served *served_start(const char *const *args);
/* The same in a folder that is there already, which becomes the server's. */
served *served_start_in(char *folder, const char *const *args);
/* Ask it to stop (SIGTERM) and wait; its exit code, or 256 plus the signal that ended it. The folder stays. */
int served_stop(served *s);
/* Wait for its end. */
int served_wait(served *s);
/* Stop it if it runs, remove its folder. Takes NULL. */
void served_free(served *s);
/* Make it again after served_stop or a kill, on the same home. */
void served_again(served *s);
/* A file of its folder as text; freed by the caller. "" if there is none. */
char *served_file(const served *s, const char *name);

/* A connection, with a time-out of SERVED_PATIENCE_S for each read. */
int served_connect(const served *s);
int served_connect_unix(const served *s);

typedef struct reply {
  int status; /* 0: the connection was closed without an answer */
  char *head; /* from the first line on */
  char *body; /* ended by a NUL that is not counted */
  size_t body_size;
  bool is_closed; /* by the server, after this answer */
} reply;

void reply_done(reply *r);
/* A header's value into `out` ("" if absent); returns `out`. */
char *reply_header(const reply *r, const char *name, char *out, size_t size);

/* Bytes as they are. False if the other side went away. */
bool send_bytes(int fd, const void *bytes, size_t size);
/* Read one answer. `is_head`: to a HEAD request. */
reply read_reply(int fd, bool is_head);
/* METHOD PATH with a JSON body (NULL: none) and headers ("Name: value\r\n"…, may be ""), over a connection. */
reply ask_on(int fd, const char *method, const char *path, const char *headers, const char *body);
/* The same over a connection of its own. */
reply ask(const served *s, const char *method, const char *path, const char *headers, const char *body);
/* POST /v1/call/NAME as an agent. */
reply ask_call(const served *s, const char *agent, const char *capability, const char *input);

/* One number of /metrics, which must be there. */
uint64_t served_metric(const served *s, const char *name);
/* Wait until it is at most `most`; after SERVED_PATIENCE_S the program aborts. */
void served_await_metric(const served *s, const char *name, uint64_t most);
/* Wait until so many requests are at work (or more): their heads were read, and a server that stops lets them have their answers. */
void served_await_in_flight(const served *s, uint64_t count);

/* How often its log says this. */
unsigned served_log_count(const served *s, const char *text);
/* Wait until it does; after SERVED_PATIENCE_S the program aborts. */
void served_await_log(const served *s, const char *text);

#endif
