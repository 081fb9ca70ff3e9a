/* source.c: see source.h. */
#include "source.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_SIZE ((size_t)64 * 1024)

static pd_code over_limit(const source *s, pd_error *err)
{
  return pd_error_set(err, PD_LIMIT, "the value from %s is over the limit of %zu bytes", s->name, s->size_max);
}

static pd_code read_some(source *s, void *buffer, size_t size, size_t *out_size, pd_error *err)
{
  ssize_t n;
  do {
    n = read(s->fd, buffer, size);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return pd_error_set(err, PD_STORAGE, "cannot read %s: %s", s->name, strerror(errno));
  s->taken += (uint64_t)n;
  *out_size = (size_t)n;
  return s->taken > s->size_max ? over_limit(s, err) : PD_OK;
}

static pd_code read_head(source *s, pd_error *err)
{
  struct stat about;
  if (fstat(s->fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) s->total = (uint64_t)about.st_size;
  if (s->total > s->size_max && lseek(s->fd, 0, SEEK_CUR) == 0) return over_limit(s, err);
  TRY(pd_buf_reserve(&s->head, HEAD_SIZE, err));
  for (size_t got = 1; got && s->head.size < HEAD_SIZE;) {
    TRY(read_some(s, s->head.data + s->head.size, HEAD_SIZE - s->head.size, &got, err));
    s->head.size += got;
  }
  return PD_OK;
}

pd_code source_open(source *s, const char *text, size_t size_max, pd_error *err)
{
  bool is_stdin = strcmp(text, "-") == 0;
  s->name = is_stdin ? "standard input" : text + 1;
  s->size_max = size_max;
  s->fd = is_stdin ? STDIN_FILENO : open(s->name, O_RDONLY | O_CLOEXEC);
  if (s->fd < 0) return pd_error_set(err, errno == EACCES ? PD_STORAGE : PD_INVALID, "cannot open '%s': %s", s->name, strerror(errno));
  s->is_open = true;
  return read_head(s, err);
}

pd_code source_read(void *ctx, void *buffer, size_t size, size_t *out_size, pd_error *err)
{
  source *s = ctx;
  size_t left = s->head.size - s->head_at;
  if (!left) {
    TRY(read_some(s, buffer, size, out_size, err));
    if (s->bar) progress_show(s->bar, s->taken, s->total);
    return PD_OK;
  }
  if (left > size) left = size;
  memcpy(buffer, s->head.data + s->head_at, left);
  s->head_at += left;
  *out_size = left;
  return PD_OK;
}

void source_close(source *s)
{
  if (s->is_open && s->fd > STDERR_FILENO) close(s->fd);
  pd_buf_done(&s->head);
}

bool source_is_named(const char *text)
{
  return strcmp(text, "-") == 0 || text[0] == '@';
}
