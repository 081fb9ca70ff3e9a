/* server_world.c: see server_world.h. */
#include "wire/server_world.h"

#include "support/temp_folder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLY_SIZE_MAX ((size_t)256 * 1024 * 1024)
#define LOOK_EVERY_MS 20

const char *served_binary;
void (*served_prepare)(void);
const char *served_listen = "127.0.0.1:0";

/* ---- the server ---- */

static void run_server(const served *s, int out)
{
  const char *argv[SERVED_ARGS_MAX + 8] = {served_binary, "serve", "--home", text_of("%s/home", s->folder)};
  size_t count = 4;
  if (served_listen) argv[count++] = "--listen", argv[count++] = served_listen;
  for (size_t i = 0; s->args[i]; i++) argv[count++] = *s->args[i] == '@' ? text_of("%s/%s", s->folder, s->args[i] + 1) : s->args[i];
  int log = open(text_of("%s/log", s->folder), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (served_prepare) served_prepare();
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no server behind */
  execv(served_binary, (char *const *)(uintptr_t)argv);
  _exit(127);
}

/* The line with the address is its word that it serves. */
static int read_port(int fd)
{
  char text[512];
  size_t used = 0;
  for (ssize_t got; used < sizeof text - 1 && (got = read(fd, text + used, sizeof text - 1 - used)) > 0;) {
    used += (size_t)got;
    text[used] = 0;
    const char *at = strstr(text, " on http"), *end = at ? strchr(at, '\n') : NULL;
    const char *colon = end ? memrchr(at, ':', (size_t)(end - at)) : NULL;
    if (colon) return atoi(colon + 1);
  }
  return 0;
}

void served_again(served *s)
{
  int fds[2];
  if (pipe2(fds, O_CLOEXEC)) abort();
  s->pid = fork();
  if (s->pid == 0) run_server(s, fds[1]);
  close(fds[1]);
  s->port = read_port(fds[0]);
  close(fds[0]);
  if (s->port) return;
  char *log = served_file(s, "log");
  fprintf(stderr, "the server did not start:\n%s\n", log);
  abort();
}

served *served_start_in(char *folder, const char *const *args)
{
  served *s = calloc(1, sizeof *s);
  if (!s) abort();
  s->folder = folder;
  for (size_t i = 0; args && args[i] && i < SERVED_ARGS_MAX - 1; i++) s->args[i] = args[i];
  served_again(s);
  return s;
}

served *served_start(const char *const *args)
{
  return served_start_in(temp_folder_new(), args);
}

int served_wait(served *s)
{
  int status = 0;
  if (!s->pid) return -1;
  while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {}
  s->pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int served_stop(served *s)
{
  if (s->pid) kill(s->pid, SIGTERM);
  return served_wait(s);
}

void served_free(served *s)
{
  if (!s) return;
  served_stop(s);
  temp_folder_free(s->folder);
  free(s);
}

char *served_file(const served *s, const char *name)
{
  char *path = text_of("%s/%s", s->folder, name), *text = calloc(1, 1 << 20);
  int fd = open(path, O_RDONLY);
  if (text && fd >= 0 && read(fd, text, (1 << 20) - 1) < 0) text[0] = 0;
  if (fd >= 0) close(fd);
  free(path);
  return text;
}

char *served_token(const served *s, const char *args)
{
  char *command = text_of("%s --store %s/home token %s 2>/dev/null", served_binary, s->folder, args), line[512] = "";
  FILE *f = popen(command, "r");
  if (!f || !fgets(line, sizeof line, f)) line[0] = 0;
  line[strcspn(line, "\n")] = 0;
  if (!f || pclose(f) != 0) printf("# failed: %s\n", command);
  free(command);
  return strdup(line);
}

/* ---- connections ---- */

static int connected(int fd, const struct sockaddr *address, socklen_t size)
{
  struct timeval limit = {.tv_sec = SERVED_PATIENCE_S};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (fd >= 0 && connect(fd, address, size) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

int served_connect(const served *s)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = connected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&at, sizeof at);
  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* head and body are sent apart: else 40 ms a call */
  return fd;
}

int served_connect_unix(const served *s)
{
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", s->folder);
  return connected(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&at, sizeof at);
}

bool send_bytes(int fd, const void *bytes, size_t size)
{
  for (const char *at = bytes; size;) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= (size_t)sent;
  }
  return true;
}

/* ---- answers ---- */

typedef struct stream {
  int fd;
  char *data;
  size_t size, capacity;
  bool is_closed;
} stream;

static bool read_more(stream *s)
{
  if (s->size + 65536 + 1 > s->capacity) {
    s->capacity = s->capacity * 2 + 131072;
    s->data = realloc(s->data, s->capacity);
    if (!s->data || s->capacity > REPLY_SIZE_MAX) abort();
  }
  ssize_t got;
  do got = recv(s->fd, s->data + s->size, 65536, 0);
  while (got < 0 && errno == EINTR); /* a child of ours has ended */
  if (got <= 0) {
    s->is_closed = true;
    return false;
  }
  s->size += (size_t)got;
  s->data[s->size] = 0;
  return true;
}

char *reply_header(const reply *r, const char *name, char *out, size_t size)
{
  size_t length = strlen(name);
  out[0] = 0;
  for (const char *line = r->head ? strstr(r->head, "\r\n") : NULL; line; line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, length) != 0 || line[2 + length] != ':') continue;
    const char *value = line + 3 + length;
    while (*value == ' ') value++;
    snprintf(out, size, "%.*s", (int)strcspn(value, "\r\n"), value);
    return out;
  }
  return out;
}

/* The chunks at `at` of the stream, joined. */
static void read_chunks(stream *s, size_t at, reply *r)
{
  for (;;) {
    char *end;
    while (!(end = at < s->size ? strstr(s->data + at, "\r\n") : NULL))
      if (!read_more(s)) return;
    size_t size = strtoull(s->data + at, NULL, 16), begin = (size_t)(end - s->data) + 2;
    while (s->size < begin + size + 2)
      if (!read_more(s)) return;
    if (!size) return;
    r->body = realloc(r->body, r->body_size + size + 1);
    memcpy(r->body + r->body_size, s->data + begin, size);
    r->body_size += size;
    r->body[r->body_size] = 0;
    at = begin + size + 2;
  }
}

static void read_body(stream *s, size_t at, reply *r, bool is_head)
{
  char text[64];
  bool has_size = *reply_header(r, "Content-Length", text, sizeof text);
  size_t size = has_size ? strtoull(text, NULL, 10) : 0;
  if (is_head || r->status == 304 || r->status == 204) return;
  if (strcmp(reply_header(r, "Transfer-Encoding", text, sizeof text), "chunked") == 0) {
    read_chunks(s, at, r);
    return;
  }
  while (has_size ? s->size < at + size : true)
    if (!read_more(s)) break;
  if (!has_size) size = s->size - at;
  if (size > s->size - at) size = s->size - at;
  r->body = realloc(r->body, size + 1);
  memcpy(r->body, s->data + at, size);
  r->body[size] = 0;
  r->body_size = size;
}

reply read_reply(int fd, bool is_head)
{
  stream s = {.fd = fd};
  reply r = {0};
  char *end = NULL, text[64];
  size_t at = 0;
  while (!(end = s.data ? strstr(s.data + at, "\r\n\r\n") : NULL) || strncmp(s.data + at, "HTTP/1.1 100", 12) == 0) {
    if (end)
      at = (size_t)(end - s.data) + 4; /* 100 Continue: the answer follows */
    else if (!read_more(&s))
      break;
  }
  r.body = calloc(1, 1);
  if (end) {
    r.head = strndup(s.data + at, (size_t)(end + 2 - s.data) - at);
    r.status = atoi(s.data + at + 9);
    read_body(&s, (size_t)(end - s.data) + 4, &r, is_head);
    r.is_closed = s.is_closed || strcasecmp(reply_header(&r, "Connection", text, sizeof text), "close") == 0;
  }
  free(s.data);
  return r;
}

void reply_done(reply *r)
{
  free(r->head);
  free(r->body);
  *r = (reply){0};
}

/* ---- asking ---- */

reply ask_on(int fd, const char *method, const char *path, const char *headers, const char *body)
{
  char *head =
    text_of("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s", method, path, headers, body ? "Content-Type: application/json\r\n" : "\r\n");
  char *rest = body ? text_of("Content-Length: %zu\r\n\r\n", strlen(body)) : NULL;
  bool is_sent =
    send_bytes(fd, head, strlen(head)) && (!body || (send_bytes(fd, rest, strlen(rest)) && send_bytes(fd, body, strlen(body))));
  free(head);
  free(rest);
  (void)is_sent; /* an answer may be there all the same */
  return read_reply(fd, strcmp(method, "HEAD") == 0);
}

reply ask(const served *s, const char *method, const char *path, const char *headers, const char *body)
{
  int fd = served_connect(s);
  if (fd < 0) return (reply){.body = calloc(1, 1)};
  reply r = ask_on(fd, method, path, headers, body);
  close(fd);
  return r;
}

reply ask_call(const served *s, const char *agent, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability), *headers = text_of("Perdure-Agent: %s\r\n", agent);
  reply r = ask(s, "POST", path, headers, input);
  free(path);
  free(headers);
  return r;
}

uint64_t served_metric(const served *s, const char *name)
{
  reply r = ask(s, "GET", "/metrics", "Perdure-Role: operator\r\n", NULL);
  char *line = text_of("\n%s ", name);
  const char *at = strstr(r.body, line);
  if (!at) {
    fprintf(stderr, "no metric %s, but %d %.300s\n", name, r.status, r.body);
    abort();
  }
  uint64_t number = strtoull(at + strlen(line), NULL, 10);
  free(line);
  reply_done(&r);
  return number;
}

/* Until it is from `least` to `most`. */
static void await_between(const served *s, const char *name, uint64_t least, uint64_t most)
{
  uint64_t number = 0;
  for (int i = 0; i < SERVED_PATIENCE_S * 1000 / LOOK_EVERY_MS; i++) {
    number = served_metric(s, name);
    if (number >= least && number <= most) return;
    poll(NULL, 0, LOOK_EVERY_MS);
  }
  fprintf(stderr, "%s stays at %llu; it was to be from %llu to %llu\n", name, (unsigned long long)number, (unsigned long long)least,
          (unsigned long long)most);
  abort();
}

void served_await_metric(const served *s, const char *name, uint64_t most)
{
  await_between(s, name, 0, most);
}

void served_await_in_flight(const served *s, uint64_t count)
{
  await_between(s, "perdure_requests_in_flight", count + 1, UINT64_MAX); /* the one that asks is in flight, too */
}

/* ---- the log ---- */

unsigned served_log_count(const served *s, const char *text)
{
  char *log = served_file(s, "log");
  unsigned count = 0;
  for (const char *at = log; (at = strstr(at, text)); at++) count++;
  free(log);
  return count;
}

void served_await_log(const served *s, const char *text)
{
  for (int i = 0; i < SERVED_PATIENCE_S * 1000 / LOOK_EVERY_MS; i++) {
    if (served_log_count(s, text)) return;
    poll(NULL, 0, LOOK_EVERY_MS);
  }
  fprintf(stderr, "the log never said: %s\n", text);
  abort();
}
