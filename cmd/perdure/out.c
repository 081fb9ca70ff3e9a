/* out.c: see out.h. */
#include "out.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAIN_SIZE ((size_t)64 * 1024)

extern char **environ;

void out_init(out_stream *o, bool allow_colours)
{
  const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
  *o = (out_stream){0};
  o->is_terminal = isatty(STDOUT_FILENO);
  o->has_colours = o->is_terminal && allow_colours && !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0;
}

/* Put a pager between us and the terminal. If it cannot be started, there is none. */
static void start_pager(out_stream *o)
{
  const char *pager = getenv("PERDURE_PAGER");
  if (!pager || !*pager) pager = getenv("PAGER");
  if (!pager || !*pager) pager = "less";
  int ends[2];
  if (strcmp(pager, "cat") == 0 || pipe2(ends, O_CLOEXEC) != 0) return;
  setenv("LESS", "FRX", 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  char *argv[] = {"sh", "-c", (char *)pager, NULL};
  pid_t child;
  if (posix_spawn(&child, "/bin/sh", &actions, NULL, argv, environ) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0) {
    o->pager = child;
    signal(SIGINT, SIG_IGN); /* Ctrl-C belongs to the pager now */
  }
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  close(ends[1]);
}

void out_flush(out_stream *o)
{
  if (o->wants_pager && o->is_terminal && o->buf.size) {
    o->wants_pager = false;
    start_pager(o);
  }
  size_t at = 0;
  while (at < o->buf.size && !o->failed_errno) {
    ssize_t n = write(STDOUT_FILENO, o->buf.data + at, o->buf.size - at);
    if (n >= 0)
      at += (size_t)n;
    else if (errno != EINTR)
      o->failed_errno = errno;
  }
  pd_buf_clear(&o->buf);
}

void out_drain(out_stream *o)
{
  if (o->buf.size >= DRAIN_SIZE && !o->is_memory) out_flush(o);
}

void out_bytes(out_stream *o, pd_bytes bytes)
{
  if (o->failed_errno) return;
  if (pd_buf_append(&o->buf, bytes.data, bytes.size, NULL) != PD_OK) o->failed_errno = ENOMEM;
  out_drain(o);
}

void out_text(out_stream *o, const char *text)
{
  out_bytes(o, pd_text(text));
}

void out_printf(out_stream *o, const char *fmt, ...)
{
  char line[1024], *text = line;
  va_list args;
  va_start(args, fmt);
  int size = vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  if (size >= (int)sizeof line) {
    va_start(args, fmt);
    size = vasprintf(&text, fmt, args);
    va_end(args);
  }
  if (size < 0) {
    o->failed_errno = ENOMEM;
    return;
  }
  out_bytes(o, (pd_bytes){text, (size_t)size});
  if (text != line) free(text);
}

void out_set(out_stream *o, out_colour colour)
{
  static const char *const codes[] = {"\33[m", "\33[33m", "\33[1;36m", "\33[32m", "\33[31m", "\33[33m", "\33[2m"};
  if (o->has_colours) out_text(o, codes[colour]);
}

static size_t character_size(const uint8_t *p, size_t left)
{
  size_t size = *p < 0x80 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4;
  return size <= left && pd_utf8_check((pd_bytes){p, size}) ? size : 0;
}

/* C0, DEL, and C1 in its two-byte form: all of them can steer a terminal. */
static bool is_control(const uint8_t *p, size_t size)
{
  return *p < 0x20 || *p == 0x7F || (size == 2 && *p == 0xC2 && p[1] < 0xA0);
}

void out_safe(out_stream *o, pd_bytes text)
{
  const uint8_t *p = text.data;
  for (size_t i = 0; i < text.size;) {
    size_t size = character_size(p + i, text.size - i);
    if (size && !is_control(p + i, size)) {
      out_bytes(o, (pd_bytes){p + i, size});
    } else if (p[i] == '\n' || p[i] == '\t' || p[i] == '\r') {
      out_text(o, p[i] == '\n' ? "\\n" : p[i] == '\t' ? "\\t" : "\\r");
    } else {
      for (size_t k = 0; k < (size ? size : 1); k++) out_printf(o, "\\x%02x", p[i + k]);
    }
    i += size ? size : 1;
  }
}

void out_tsv(out_stream *o, pd_bytes text)
{
  const char *p = text.data;
  size_t run = 0;
  for (size_t i = 0; i < text.size; i++) {
    if (p[i] != '\n' && p[i] != '\t' && p[i] != '\r') continue;
    out_bytes(o, (pd_bytes){p + run, i - run});
    out_text(o, p[i] == '\n' ? "\\n" : p[i] == '\t' ? "\\t" : "\\r");
    run = i + 1;
  }
  if (text.size) out_bytes(o, (pd_bytes){p + run, text.size - run});
}

bool out_is_closed(const out_stream *o)
{
  return o->failed_errno != 0;
}

static pd_code check_failure(const out_stream *o, pd_error *err)
{
  if (!o->failed_errno || o->failed_errno == EPIPE) return PD_OK;
  pd_code code = o->failed_errno == ENOSPC || o->failed_errno == EDQUOT ? PD_FULL : PD_STORAGE;
  return pd_error_set(err, code, "cannot write to standard output: %s", strerror(o->failed_errno));
}

pd_code out_finish(out_stream *o, pd_error *err)
{
  out_flush(o);
  if (o->pager) {
    close(STDOUT_FILENO); /* so that the pager sees the end */
    while (waitpid(o->pager, NULL, 0) < 0 && errno == EINTR) continue;
  }
  pd_buf_done(&o->buf);
  return check_failure(o, err);
}

const char *out_size(uint64_t bytes, char out[OUT_SIZE_TEXT])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double size = (double)bytes;
  size_t unit = 0;
  while (size >= 1024 && unit + 1 < COUNT_OF(units)) size /= 1024, unit++;
  snprintf(out, OUT_SIZE_TEXT, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
  return out;
}
