/* door.c: see door.h. */
#include "door.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "far.h"
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_SIZE_MAX ((size_t)256 * 1024 * 1024)

static void close_fd(int *fd)
{
  if (*fd >= 0) close(*fd);
}

static const char *session_of(const args_parsed *args)
{
  const char *session = args_get(args, "session");
  if (!session) session = getenv("PERDURE_SESSION");
  return session && *session ? session : NULL;
}

static bool is_operator(const cli_session *cli, const args_parsed *args)
{
  return cli->is_operator || args_get(args, "operator");
}

/* Who calls: the agent, named or `main`. NULL: nobody but the operator, whose alerts, messages and process events are not an agent's unless
 * one was named: so an alert for all can be sent. */
static const char *caller(const cli_session *cli, bool is_operator, const char *capability)
{
  static const char *const sends[] = {"alerts.send", "queue.send", "process.record"};
  for (size_t i = 0; is_operator && !cli->has_agent && i < COUNT_OF(sends); i++)
    if (strcmp(capability, sends[i]) == 0) return NULL;
  return cli->agent;
}

/* ---- the holder ---- */

/* A connection to the holder; -1 if none runs. */
static int connect_holder(const char *uri)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (holder_path(uri, address.sun_path, sizeof address.sun_path, NULL)) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

bool door_send(int fd, pd_bytes bytes)
{
  const char *at = bytes.data;
  for (size_t left = bytes.size; left;) {
    ssize_t wrote = send(fd, at, left, MSG_NOSIGNAL);
    if (wrote < 0 && errno != EINTR) return false;
    if (wrote > 0) at += wrote, left -= (size_t)wrote;
  }
  return true;
}

static pd_code read_line(int fd, pd_buf *out, pd_error *err)
{
  pd_buf_clear(out);
  out->size_max = ANSWER_SIZE_MAX;
  for (;;) {
    TRY(pd_buf_reserve(out, 65536, err));
    ssize_t got = recv(fd, out->data + out->size, 65536, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return pd_error_set(err, PD_STORAGE, "the holder of the home went away; try again");
    out->size += (size_t)got;
    if (out->data[out->size - 1] == '\n') break;
  }
  out->size--;
  return PD_OK;
}

pd_code door_ask_holder(cli_session *cli, pd_bytes line, pd_buf *out, pd_error *err)
{
  CLEANUP(close_fd) int fd = connect_holder(cli->uri);
  if (fd < 0) return pd_error_set(err, PD_NOT_FOUND, "nothing is held for the home %s", cli->uri);
  if (!door_send(fd, line) || !door_send(fd, pd_text("\n")))
    return pd_error_set(err, PD_STORAGE, "the holder of the home went away; try again");
  return read_line(fd, out, err);
}

/* ---- the holder, telling how far it is ---- */

typedef struct teller {
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  void *ctx;
} teller;

/* {"progress":[3,10]}: told, and no answer. *out_goes_on: false if whoever was told has had enough. */
static bool take_progress(pd_bytes line, const teller *to, bool *out_goes_on)
{
  pd_json json, number;
  uint64_t numbers[2] = {0};
  if (line.size > 64 || pd_json_parse(line, &json, NULL) || pd_json_member(json, "progress").kind != PD_JSON_ARRAY) return false;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(json, "progress"));
  for (size_t i = 0; i < 2 && pd_json_walk_next(&walk, NULL, &number); i++)
    if (!pd_json_u64(number, &numbers[i])) numbers[i] = 0;
  *out_goes_on = to->progress(to->ctx, numbers[0], numbers[1]);
  return true;
}

/* Lines until one is the answer, which stays in `out`. Who has had enough closes the line: that is how the holder hears of it. */
static pd_code read_told(int fd, const teller *to, pd_buf *out, pd_error *err)
{
  for (;;) {
    uint8_t *end = out->size ? memchr(out->data, '\n', out->size) : NULL;
    if (!end) {
      TRY(pd_buf_reserve(out, 65536, err));
      ssize_t got = recv(fd, out->data + out->size, 65536, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return pd_error_set(err, PD_STORAGE, "the holder of the home went away; try again");
      out->size += (size_t)got;
      continue;
    }
    size_t size = (size_t)(end - out->data);
    bool goes_on = true;
    if (!take_progress((pd_bytes){out->data, size}, to, &goes_on)) {
      out->size = size;
      return PD_OK;
    }
    out->size -= size + 1;
    memmove(out->data, end + 1, out->size);
    if (!goes_on) {
      pd_buf_clear(out);
      return pd_error_named(err, PD_INVALID, "Cancelled", "the call was cancelled by its caller; nothing was changed");
    }
  }
}

static pd_code ask_told(cli_session *cli, pd_bytes line, const teller *to, pd_buf *out, pd_error *err)
{
  if (!to->progress) return door_ask_holder(cli, line, out, err);
  CLEANUP(close_fd) int fd = connect_holder(cli->uri);
  if (fd < 0) return pd_error_set(err, PD_NOT_FOUND, "nothing is held for the home %s", cli->uri);
  if (!door_send(fd, line) || !door_send(fd, pd_text("\n")))
    return pd_error_set(err, PD_STORAGE, "the holder of the home went away; try again");
  pd_buf_clear(out);
  out->size_max = ANSWER_SIZE_MAX;
  return read_told(fd, to, out, err);
}

static void become_holder(const char *uri, int listener, int ready)
{
  char folder[4096], absolute[4104];
  if (fork()) _exit(0); /* so that nobody has to wait for it */
  setsid();
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  if (!realpath(uri + 7, folder)) _exit(1);
  snprintf(absolute, sizeof absolute, "sqlite:%s", folder);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) dup2(null, fd);
  if (chdir("/")) _exit(1);
  holder_serve(absolute, listener, ready);
}

/* Wait until it says that it serves. */
static pd_code await_ready(int ready, pd_error *err)
{
  char text[PD_ERROR_MESSAGE_MAX] = "";
  ssize_t got = read(ready, text, sizeof text - 1);
  if (got == 1 && text[0] == '\n') return PD_OK;
  return pd_error_set(err, PD_STORAGE, "the holder of the home did not start: %s", got > 0 ? text : "no word from it");
}

/* `lock` is for those who start one, not for the holder: it does not keep it. */
static pd_code start_at(const char *uri, const struct sockaddr_un *address, int lock, pd_error *err)
{
  int pipe_fds[2];
  CLEANUP(close_fd) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unlink(address->sun_path);
  if (listener < 0 || bind(listener, (const struct sockaddr *)address, sizeof *address) || listen(listener, 64) ||
      pipe2(pipe_fds, O_CLOEXEC))
    return pd_error_set(err, PD_STORAGE, "cannot listen on %s: %s", address->sun_path, strerror(errno));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    close(pipe_fds[0]);
    close(lock);
    become_holder(uri, listener, pipe_fds[1]);
  }
  close(pipe_fds[1]);
  CLEANUP(close_fd) int ready = pipe_fds[0];
  if (child < 0) return pd_error_set(err, PD_STORAGE, "cannot start the holder: %s", strerror(errno));
  return await_ready(ready, err);
}

pd_code door_start_holder(cli_session *cli, pd_error *err)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char lock_path[sizeof address.sun_path + 8];
  if (strncmp(cli->uri, "sqlite:", 7) == 0 && mkdir(cli->uri + 7, 0700) && errno != EEXIST)
    return pd_error_set(err, PD_STORAGE, "cannot make the folder %s: %s", cli->uri + 7, strerror(errno));
  TRY(holder_path(cli->uri, address.sun_path, sizeof address.sun_path, err));
  snprintf(lock_path, sizeof lock_path, "%s.lock", address.sun_path);
  CLEANUP(close_fd) int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || flock(lock, LOCK_EX)) return pd_error_set(err, PD_STORAGE, "cannot lock %s: %s", lock_path, strerror(errno));
  CLEANUP(close_fd) int running = connect_holder(cli->uri); /* under the lock: two who start at once get one holder */
  return running >= 0 ? PD_OK : start_at(cli->uri, &address, lock, err);
}

/* ---- calling ---- */

static pd_code write_request(const cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, bool is_told,
                             pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json json;
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "call", capability);
  const char *agent = caller(cli, is_operator(cli, args), capability);
  if (agent) pd_json_put_text(&w, "agent", agent);
  if (session_of(args)) pd_json_put_text(&w, "session", session_of(args));
  if (is_operator(cli, args)) pd_json_put_bool(&w, "operator", true);
  if (is_told) pd_json_put_bool(&w, "progress", true);
  if (pd_json_parse(input, &json, NULL) == PD_OK) {
    pd_json_key(&w, "input");
    pd_json_value(&w, json);
  }
  pd_json_close(&w, '}');
  return w.code;
}

pd_code door_call_holder(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  return door_call_holder_told(cli, args, capability, input, NULL, NULL, out, err);
}

pd_code door_call_holder_told(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input,
                              bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf line = {0};
  teller to = {progress, ctx};
  pd_json answer;
  TRY(write_request(cli, args, capability, input, progress != NULL, &line, err));
  pd_buf_clear(out);
  TRY(ask_told(cli, pd_buf_bytes(&line), &to, out, err));
  if (pd_json_parse(pd_buf_bytes(out), &answer, NULL)) return pd_error_set(err, PD_STORAGE, "the holder's answer makes no sense");
  if (pd_json_member(answer, "error").kind != PD_JSON_OBJECT) return PD_OK;
  return pd_remote_error(&(pd_remote_reply){0}, pd_buf_bytes(out), capability, err);
}

/* Who only looks does not make a home: it would hide that the folder is the wrong one. */
static bool only_looks(const char *capability)
{
  pd_capability_info info;
  pd_json document, effect;
  if (pd_capability_find(capability, &info, NULL) || pd_json_parse(pd_text(info.document), &document, NULL)) return false;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(document, "side_effects"));
  return !pd_json_walk_next(&walk, NULL, &effect);
}

static pd_code open_home(cli_session *cli, const char *capability, pd_home **out, pd_error *err)
{
  pd_home_options options = {.must_exist = strncmp(cli->uri, "sqlite:", 7) == 0 && only_looks(capability)};
  pd_code code = pd_home_open(cli->uri, &options, out, err);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make one with: perdure init");
  return pd_error_set(err, PD_NOT_FOUND, "there is no home at %s", cli->uri);
}

static pd_code call_here(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  pd_home *home = NULL;
  pd_buf_clear(out);
  TRY(open_home(cli, capability, &home, err));
  pd_ctx ctx = {.home = home, .session = session_of(args), .is_operator = is_operator(cli, args)};
  ctx.agent = caller(cli, ctx.is_operator, capability);
  pd_code code = pd_call(&ctx, capability, input, out, err);
  pd_code closed = pd_home_close(home, code ? NULL : err);
  return code ? code : closed;
}

pd_code door_call(cli_session *cli, const args_parsed *args, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  pd_json json;
  bool is_by_operator = is_operator(cli, args);
  if (cli->is_remote) {
    cli_session as = *cli;
    as.agent = caller(cli, is_by_operator, capability);
    return far_call(&as, session_of(args), is_by_operator, capability, input, out, err);
  }
  if (strcmp(capability, "session.begin") == 0) TRY(door_start_holder(cli, err));
  if (input.size && pd_json_parse(input, &json, NULL)) return call_here(cli, args, capability, input, out, err); /* it will say why */
  pd_code code = door_call_holder(cli, args, capability, input, out, err);
  if (code != PD_NOT_FOUND || out->size) return code;
  return call_here(cli, args, capability, input, out, err);
}
