/* value.c: values on their way in (text, standard input, a file) and out (JSON, a short line for people). */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_record.h"
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define CHUNK_SIZE ((size_t)64 * 1024)

static void close_fd(int *fd)
{
  if (*fd > STDERR_FILENO) close(*fd);
}

static pd_code read_all(int fd, const char *name, const char *what, pd_buf *out, pd_error *err)
{
  pd_buf_clear(out);
  for (;;) {
    TRY(pd_buf_reserve(out, CHUNK_SIZE, err));
    ssize_t n = read(fd, out->data + out->size, out->capacity - out->size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_error_set(err, PD_STORAGE, "cannot read %s: %s", name, strerror(errno));
    if (n == 0) return PD_OK;
    out->size += (size_t)n;
    if (out->size > CLI_VALUE_SIZE_MAX)
      return pd_error_set(err, PD_LIMIT, "the %s from %s is over the limit of %zu bytes", what, name, CLI_VALUE_SIZE_MAX);
  }
}

pd_code cli_file_read(const char *path, const char *what, pd_buf *out, pd_error *err)
{
  if (strcmp(path, "-") == 0) return read_all(STDIN_FILENO, "standard input", what, out, err);
  CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return pd_error_set(err, errno == EACCES ? PD_STORAGE : PD_INVALID, "cannot open '%s': %s", path, strerror(errno));
  return read_all(fd, path, what, out, err);
}

pd_code cli_file_write(const char *path, pd_bytes bytes, pd_error *err)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); /* it may show values */
  if (fd < 0) return pd_error_set(err, PD_STORAGE, "cannot write '%s': %s", path, strerror(errno));
  const char *p = bytes.data;
  int why = 0;
  for (size_t left = bytes.size; left && !why;) {
    ssize_t n = write(fd, p, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      why = errno;
    else
      p += n, left -= (size_t)n;
  }
  if (close(fd) < 0 && !why) why = errno;
  if (!why) return PD_OK;
  return pd_error_set(err, why == ENOSPC || why == EDQUOT ? PD_FULL : PD_STORAGE, "cannot write '%s': %s", path, strerror(why));
}

pd_code cli_value_read(const char *text, pd_buf *out, pd_error *err)
{
  if (strcmp(text, "-") == 0) return cli_file_read(text, "value", out, err);
  if (text[0] == '@') return cli_file_read(text + 1, "value", out, err);
  pd_buf_clear(out);
  return pd_buf_append(out, text, strlen(text), err);
}

pd_code cli_json_check(pd_bytes text, const char *otherwise, pd_error *err)
{
  const char *at = text.data;
  size_t blanks = 0;
  pd_error why = {0};
  while (blanks < text.size && strchr(" \t\r\n", at[blanks]) && at[blanks]) blanks++;
  if (blanks == text.size || !at[blanks] || !strchr("{[\"", at[blanks])) return PD_OK;
  if (!pd_json_parse(text, NULL, &why)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the value begins like JSON, but is not valid JSON: %.200s; %s", why.message, otherwise);
}

void cli_value_json(pd_json_writer *w, pd_bytes value)
{
  pd_json json;
  if (pd_json_parse(value, &json, NULL) == PD_OK) {
    pd_json_key(w, "value");
    pd_json_value(w, json);
  } else if (pd_utf8_check(value)) {
    pd_json_put_bytes(w, "text", value);
  } else {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    if (w->code == PD_OK) w->code = pd_base64_encode(value, &text, w->err);
    pd_json_put_bytes(w, "base64", pd_buf_bytes(&text));
  }
}

void cli_entry_json(pd_json_writer *w, const pd_entry *entry)
{
  pd_json_put_entry(w, entry);
  pd_json_put_number(w, "seq", entry->seq);
}

void cli_value_short(out_stream *o, pd_bytes value, size_t most)
{
  bool is_cut = value.size > most;
  if (is_cut) value.size = most;
  /* a cut must not leave half of a character behind */
  while (is_cut && value.size && (((const uint8_t *)value.data)[value.size] & 0xC0) == 0x80) value.size--;
  out_safe(o, value);
  if (is_cut) out_text(o, "…");
}

const char *cli_short_id(const pd_id *id, char out[PD_ID_HEX_SIZE])
{
  pd_id_hex(id, out)[CLI_SHORT_ID] = 0;
  return out;
}
