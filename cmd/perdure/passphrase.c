/* passphrase.c: see passphrase.h. Bytes go from read() into secret memory and nowhere else: no stdio, no buffer of ours. */
#include "passphrase.h"

#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define OPTION_SIZE 40
#define PATH_SIZE 4096

void passphrase_done(passphrase *pass)
{
  pd_secret_done(&pass->memory);
  pass->text = (pd_bytes){0};
}

/* One line, byte by byte: what comes after it may be another's. */
static pd_code read_line(int fd, const char *from, passphrase *out, pd_error *err)
{
  size_t size = 0;
  TRY(pd_secret_new(&out->memory, PD_PASSPHRASE_SIZE_MAX + 2, err));
  for (;;) {
    ssize_t n = read(fd, out->memory.data + size, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_file_refused(err, "read", from);
    if (!n || out->memory.data[size] == '\n') break;
    if (++size > PD_PASSPHRASE_SIZE_MAX + 1)
      return pd_error_set(err, PD_LIMIT, "the passphrase from %.300s is longer than %d bytes", from, PD_PASSPHRASE_SIZE_MAX);
  }
  if (size && out->memory.data[size - 1] == '\r') size--;
  if (!size) return pd_error_set(err, PD_INVALID, "there is no passphrase in %.300s", from);
  out->text = (pd_bytes){out->memory.data, size};
  return PD_OK;
}

static pd_code read_fd(const char *number, passphrase *out, pd_error *err)
{
  char from[48];
  uint64_t fd;
  if (!pd_u64_parse(number, &fd) || fd > 1 << 20) return pd_error_set(err, PD_INVALID, "'%.40s' is no file descriptor's number", number);
  snprintf(from, sizeof from, "file descriptor %d", (int)fd);
  return read_line((int)fd, from, out, err);
}

static pd_code read_file(const char *path, passphrase *out, pd_error *err)
{
  struct stat is;
  CLEANUP(pd_fd_done) int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &is) != 0) return pd_file_refused(err, "read", path);
  if (S_ISREG(is.st_mode) && (is.st_mode & 077))
    return pd_error_set(err, PD_INVALID, "others may read %.300s (mode %04o): chmod 600 it first", path, is.st_mode & 07777);
  return read_line(fd, path, out, err);
}

/* ---- a person ---- */

static struct termios before_prompt;
static int prompt_fd = -1;

static void show_again(int number)
{
  tcsetattr(prompt_fd, TCSAFLUSH, &before_prompt);
  signal(number, SIG_DFL);
  raise(number);
}

static pd_code ask_once(int fd, const char *what, passphrase *out, pd_error *err)
{
  if (tcgetattr(fd, &before_prompt) != 0) return pd_file_refused(err, "use", "/dev/tty");
  prompt_fd = fd;
  struct termios silent = before_prompt;
  silent.c_lflag &= (tcflag_t) ~(ECHO | ECHOE | ECHOK);
  void (*interrupted)(int) = signal(SIGINT, show_again), (*ended)(int) = signal(SIGTERM, show_again);
  tcsetattr(fd, TCSAFLUSH, &silent);
  dprintf(fd, "%s: ", what);
  pd_code code = read_line(fd, "the terminal", out, err);
  dprintf(fd, "\n");
  tcsetattr(fd, TCSAFLUSH, &before_prompt);
  signal(SIGINT, interrupted);
  signal(SIGTERM, ended);
  return code;
}

static pd_code ask(const char *what, bool is_new, passphrase *out, pd_error *err)
{
  char again[80];
  CLEANUP(passphrase_done) passphrase second = {0};
  CLEANUP(pd_fd_done) int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return pd_error_set(err, PD_INVALID, "no terminal to ask for a passphrase; give it by --passphrase-fd or --passphrase-file");
  TRY(ask_once(fd, what, out, err));
  if (!is_new) return PD_OK;
  snprintf(again, sizeof again, "%s, once more", what);
  TRY(ask_once(fd, again, &second, err));
  if (out->text.size == second.text.size && memcmp(out->text.data, second.text.data, second.text.size) == 0) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the two passphrases differ");
}

/* ---- which of them ---- */

static const char *option(const args_parsed *args, const char *prefix, const char *name)
{
  char text[OPTION_SIZE];
  snprintf(text, sizeof text, "%spassphrase-%s", prefix, name);
  return args_get(args, text);
}

static bool credential_path(const char *prefix, char out[PATH_SIZE])
{
  const char *folder = getenv("CREDENTIALS_DIRECTORY");
  if (*prefix || !folder || !*folder) return false;
  return snprintf(out, PATH_SIZE, "%s/" PASSPHRASE_CREDENTIAL, folder) < PATH_SIZE && access(out, F_OK) == 0;
}

bool passphrase_is_given(const args_parsed *args, const char *prefix)
{
  char path[PATH_SIZE];
  return option(args, prefix, "fd") || option(args, prefix, "file") || credential_path(prefix, path);
}

pd_code passphrase_read(const args_parsed *args, const char *prefix, const char *what, bool is_new, passphrase *out, pd_error *err)
{
  char path[PATH_SIZE];
  const char *fd = option(args, prefix, "fd"), *file = option(args, prefix, "file");
  if (fd && file) return pd_error_set(err, PD_INVALID, "--%spassphrase-fd and --%spassphrase-file do not go together", prefix, prefix);
  if (fd) return read_fd(fd, out, err);
  if (file) return read_file(file, out, err);
  if (credential_path(prefix, path)) return read_file(path, out, err);
  return ask(what, is_new, out, err);
}
