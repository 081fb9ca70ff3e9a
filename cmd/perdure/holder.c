/*
 * holder.c: the process that keeps what a single command cannot: sessions and the unlocked vault (door.h).
 *
 * Requests and answers are lines of JSON, one each:
 *   {"call":NAME,"agent":A,"session":S,"operator":true,"input":{…}}   the answer of pd_call; with "progress":true, before it, lines
 *                                                                     {"progress":[DONE,TOTAL]}, and who closes meanwhile cancels
 *   {"hold":"status"} {"hold":"stop"}                                 what it holds; leave
 */
#include "base/array.h"
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "door.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_SIZE_MAX (PD_CALL_SIZE_MAX + 4096)
#define CONNECTIONS_MAX 64
#define LOOK_MS 1000
#define GRACE_LOOKS 5 /* how often it finds nothing to hold before it leaves */

typedef struct holder {
  pd_home *home;
  char path[sizeof((struct sockaddr_un *)0)->sun_path];
  atomic_int connections;
  atomic_bool must_stop;
} holder;

typedef struct connection {
  holder *h;
  int fd;
} connection;

/* ---- where ---- */

pd_code holder_folder(char *out, size_t size, pd_error *err)
{
  const char *given = getenv("XDG_RUNTIME_DIR");
  int length = given && *given ? snprintf(out, size, "%s/perdure", given) : snprintf(out, size, "/tmp/perdure-%u", (unsigned)getuid());
  if (length < 0 || (size_t)length >= size) return pd_error_set(err, PD_LIMIT, "the path %s is too long for a socket", given);
  if (mkdir(out, 0700) && errno != EEXIST) return pd_error_set(err, PD_STORAGE, "cannot make the folder %s: %s", out, strerror(errno));
  struct stat is;
  if (lstat(out, &is) || !S_ISDIR(is.st_mode) || is.st_uid != getuid() || (is.st_mode & 077))
    return pd_error_set(err, PD_STORAGE, "%s is not a folder of yours alone; nothing can be put there", out);
  return PD_OK;
}

pd_code holder_path(const char *uri, char *out, size_t size, pd_error *err)
{
  char folder[PATH_MAX], runtime[PATH_MAX], hex[PD_ID_HEX_SIZE];
  if (strncmp(uri, "sqlite:", 7) != 0 || !realpath(uri + 7, folder))
    return pd_error_set(err, PD_UNSUPPORTED, "the home %s has no folder, so nothing can be held for it", uri);
  TRY(holder_folder(runtime, sizeof runtime, err));
  pd_id id = pd_value_id(pd_text(folder));
  int length = snprintf(out, size, "%s/%.16s.sock", runtime, pd_id_hex(&id, hex));
  if (length < 0 || (size_t)length >= size) return pd_error_set(err, PD_LIMIT, "the path %s is too long for a socket", runtime);
  return PD_OK;
}

/* ---- what it holds ---- */

/* Asked each second, so by nothing that leaves a line in the audit. */
static bool holds_something(holder *h)
{
  pd_vault_state vault = {0};
  pd_sessions_sweep(h->home);
  if (pd_session_count(h->home)) return true;
  return pd_vault_status(h->home, &vault, NULL) == PD_OK && vault.is_unlocked;
}

/* ---- answering ---- */

static char *text_member(pd_json object, const char *name)
{
  pd_json value = pd_json_member(object, name);
  pd_buf text = {0};
  if (value.kind != PD_JSON_STRING || pd_json_decode(value, &text, NULL) || pd_buf_byte(&text, 0, NULL)) {
    pd_buf_done(&text);
    return NULL;
  }
  return (char *)text.data;
}

/* Tell how far it is; nobody is there any more: give up. */
static bool tell_progress(void *ctx, uint64_t done, uint64_t total)
{
  char line[64], byte;
  int fd = *(const int *)ctx;
  ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
  int size = snprintf(line, sizeof line, "{\"progress\":[%llu,%llu]}\n", (unsigned long long)done, (unsigned long long)total);
  return door_send(fd, (pd_bytes){line, (size_t)size});
}

static void answer_call(connection *c, pd_json request, const char *capability, pd_buf *out)
{
  CLEANUP(pd_free_at) char *agent = text_member(request, "agent");
  CLEANUP(pd_free_at) char *session = text_member(request, "session");
  pd_json operator_ = pd_json_member(request, "operator"), input = pd_json_member(request, "input");
  pd_json progress = pd_json_member(request, "progress");
  pd_ctx ctx = {
    .home = c->h->home,
    .agent = agent,
    .session = session,
    .is_operator = operator_.kind == PD_JSON_BOOL && pd_json_true(operator_),
  };
  if (progress.kind == PD_JSON_BOOL && pd_json_true(progress)) ctx.progress = tell_progress, ctx.progress_ctx = &c->fd;
  if (pd_call(&ctx, capability, input.raw, out, NULL) && !out->size) return; /* no memory: the caller sees the line end */
}

static void answer_hold(holder *h, pd_json request, pd_buf *out)
{
  pd_json what = pd_json_member(request, "hold");
  if (pd_json_is(what, "stop")) atomic_store(&h->must_stop, true);
  pd_json_writer w = {.out = out};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "pid", (uint64_t)getpid());
  pd_json_put_bool(&w, "holds", holds_something(h));
  pd_json_close(&w, '}');
}

/* {"vault":"unlock","passphrase":BASE64}, {"vault":"learn","path":…,"passphrase":BASE64}, {"vault":"lock"}. The passphrase is in the line
 * and in `secret`; both are wiped. */
static void answer_vault(holder *h, pd_json request, pd_json what, pd_buf *out)
{
  pd_error err = {0};
  pd_code code = PD_OK;
  CLEANUP(pd_free_at) char *path = text_member(request, "path");
  pd_buf secret = {.size_max = PD_PASSPHRASE_SIZE_MAX + 2};
  pd_json text = pd_json_member(request, "passphrase");
  bool has_text =
    text.kind == PD_JSON_STRING && pd_base64_decode((pd_bytes){(const char *)text.raw.data + 1, text.raw.size - 2}, &secret, NULL) == PD_OK;
  if (pd_json_is(what, "lock"))
    pd_vault_lock(h->home);
  else if (has_text && pd_json_is(what, "unlock"))
    code = pd_vault_unlock(h->home, pd_buf_bytes(&secret), &err);
  else if (has_text && path && pd_json_is(what, "learn"))
    code = pd_vault_learn(h->home, path, pd_buf_bytes(&secret), &err);
  else
    code = pd_error_set(&err, PD_INVALID, "the holder does not understand");
  if (secret.data) explicit_bzero(secret.data, secret.capacity);
  pd_buf_done(&secret);
  pd_json_writer w = {.out = out};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "code", (uint64_t)code);
  pd_json_put_text(&w, "message", code ? err.message : "");
  pd_json_close(&w, '}');
}

static void answer_line(connection *c, pd_bytes line, pd_buf *out)
{
  holder *h = c->h;
  pd_json request;
  pd_buf_clear(out);
  if (pd_json_parse(line, &request, NULL)) return;
  CLEANUP(pd_free_at) char *capability = text_member(request, "call");
  pd_json vault = pd_json_member(request, "vault");
  if (capability)
    answer_call(c, request, capability, out);
  else if (vault.kind == PD_JSON_STRING)
    answer_vault(h, request, vault, out);
  else
    answer_hold(h, request, out);
}

static bool answer_lines(connection *c, pd_buf *in, pd_buf *out)
{
  uint8_t *end;
  while ((end = memchr(in->data, '\n', in->size))) {
    size_t size = (size_t)(end - in->data);
    answer_line(c, (pd_bytes){in->data, size}, out);
    explicit_bzero(in->data, size); /* it may have been a passphrase */
    if (!out->size || pd_buf_byte(out, '\n', NULL) || !door_send(c->fd, pd_buf_bytes(out))) return false;
    memmove(in->data, end + 1, in->size - size - 1);
    in->size -= size + 1;
  }
  return true;
}

static void *serve_connection(void *ctx)
{
  connection *c = ctx;
  pd_buf in = {.size_max = LINE_SIZE_MAX}, out = {0};
  ssize_t got;
  while (pd_buf_reserve(&in, 65536, NULL) == PD_OK) {
    got = recv(c->fd, in.data + in.size, 65536, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    in.size += (size_t)got;
    if (!answer_lines(c, &in, &out)) break;
  }
  close(c->fd);
  pd_buf_done(&in);
  pd_buf_done(&out);
  atomic_fetch_sub(&c->h->connections, 1);
  free(c);
  return NULL;
}

/* ---- serving ---- */

static bool is_owner(int fd)
{
  struct ucred peer;
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

static void take_connection(holder *h, int listener)
{
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  connection *c = is_owner(fd) && atomic_load(&h->connections) < CONNECTIONS_MAX ? malloc(sizeof *c) : NULL;
  pthread_t thread;
  if (!c) {
    close(fd);
    return;
  }
  *c = (connection){h, fd};
  atomic_fetch_add(&h->connections, 1);
  if (pthread_create(&thread, NULL, serve_connection, c)) {
    atomic_fetch_sub(&h->connections, 1);
    close(fd);
    free(c);
    return;
  }
  pthread_detach(thread);
}

void holder_serve(const char *uri, int listener, int ready)
{
  static holder h;
  pd_error err;
  if (holder_path(uri, h.path, sizeof h.path, &err) || pd_home_open(uri, NULL, &h.home, &err)) {
    if (write(ready, err.message, strlen(err.message)) < 0) _exit(1);
    _exit(1);
  }
  if (write(ready, "\n", 1) != 1) _exit(1);
  close(ready);
  for (int idle = 0; idle < GRACE_LOOKS && !atomic_load(&h.must_stop);) {
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    if (poll(&wait, 1, LOOK_MS) > 0) {
      take_connection(&h, listener);
      idle = 0;
    } else {
      idle = atomic_load(&h.connections) || holds_something(&h) ? 0 : idle + 1;
    }
  }
  unlink(h.path); /* who comes now finds none, and starts another or does without */
  close(listener);
  for (int i = 0; i < 100 && atomic_load(&h.connections) > 0; i++) poll(NULL, 0, 10);
  if (atomic_load(&h.connections) == 0) pd_home_close(h.home, NULL);
  _exit(0);
}
