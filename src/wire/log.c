/* log.c: see log.h. */
#include "wire/log.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_SIZE_MAX 4096
#define VALUE_SIZE_MAX 512 /* six times as long in JSON, at worst: a path cannot push out the fields behind it */

static const char *const names[] = {"error", "warn", "info", "debug"};

bool pd_log_level_parse(const char *text, pd_log_level *out)
{
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    if (strcmp(text, names[i]) != 0) continue;
    *out = (pd_log_level)i;
    return true;
  }
  return false;
}

/* So much of a value that the fields behind it still fit. A cut leaves no half of a character behind. */
static pd_bytes cut_value(const char *text)
{
  size_t size = strnlen(text, VALUE_SIZE_MAX + 1);
  if (size > VALUE_SIZE_MAX)
    for (size = VALUE_SIZE_MAX; size && ((unsigned char)text[size] & 0xC0) == 0x80;) size--;
  return (pd_bytes){text, size};
}

static void write_json(pd_buf *out, pd_log_level level, const char *message, const pd_log_field *fields, size_t count)
{
  char time[PD_TIME_TEXT_SIZE];
  pd_json_writer w = {.out = out};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "time", pd_time_text(pd_clock_now_ms(NULL), time));
  pd_json_put_text(&w, "level", names[level]);
  pd_json_put_text(&w, "message", message);
  for (size_t i = 0; i < count; i++) {
    if (fields[i].text)
      pd_json_put_bytes(&w, fields[i].name, cut_value(fields[i].text));
    else
      pd_json_put_number(&w, fields[i].name, (uint64_t)fields[i].number);
  }
  pd_json_close(&w, '}');
}

/* What would end the line, or mislead a terminal, is shown as a question mark. */
static void add_plain(pd_buf *out, pd_bytes text)
{
  const uint8_t *at = text.data;
  for (size_t i = 0; i < text.size; i++)
    if (pd_buf_byte(out, at[i] < 0x20 || at[i] == 0x7f ? '?' : at[i], NULL)) return;
}

/* A value as it is, or in quotes where it could be taken for more than one: who sends "/a status=200" writes no field of this log. */
static void add_value(pd_buf *out, pd_bytes text)
{
  const char *at = text.data;
  bool is_bare = true;
  for (size_t i = 0; i < text.size && is_bare; i++) is_bare = (unsigned char)at[i] > 0x20 && !strchr("=\"\\\x7f", at[i]);
  if (is_bare) {
    add_plain(out, text);
    return;
  }
  if (pd_buf_byte(out, '"', NULL)) return;
  for (size_t i = 0; i < text.size; i++) {
    if ((at[i] == '"' || at[i] == '\\') && pd_buf_byte(out, '\\', NULL)) return;
    add_plain(out, (pd_bytes){at + i, 1});
  }
  (void)!pd_buf_byte(out, '"', NULL);
}

static void write_plain(pd_buf *out, pd_log_level level, const char *message, const pd_log_field *fields, size_t count)
{
  char time[PD_TIME_TEXT_SIZE];
  bool is_cut = pd_buf_printf(out, NULL, "%s %-5s ", pd_time_text(pd_clock_now_ms(NULL), time), names[level]) != PD_OK;
  add_plain(out, pd_text(message));
  for (size_t i = 0; i < count && !is_cut; i++) {
    is_cut = pd_buf_printf(out, NULL, " %s=", fields[i].name) != PD_OK;
    if (fields[i].text)
      add_value(out, cut_value(fields[i].text));
    else
      is_cut = pd_buf_printf(out, NULL, "%lld", (long long)fields[i].number) != PD_OK;
  }
}

void pd_log_line(const pd_log_options *options, pd_log_level level, const char *message, const pd_log_field *fields, size_t count)
{
  if (level > options->level) return;
  CLEANUP(pd_buf_done) pd_buf line = {.size_max = LINE_SIZE_MAX};
  if (options->is_json)
    write_json(&line, level, message, fields, count);
  else
    write_plain(&line, level, message, fields, count);
  line.size_max++; /* its end always fits */
  if (pd_buf_byte(&line, '\n', NULL) == PD_OK && write(options->fd, line.data, line.size) < 0) return;
}

void pd_log_say(const pd_log_options *options, pd_log_level level, const char *fmt, ...)
{
  char message[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  pd_log_line(options, level, message, NULL, 0);
}
