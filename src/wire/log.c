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
      pd_json_put_text(&w, fields[i].name, fields[i].text);
    else
      pd_json_put_number(&w, fields[i].name, (uint64_t)fields[i].number);
  }
  pd_json_close(&w, '}');
}

/* What would end the line, or mislead a terminal, is shown as a question mark. */
static void add_plain(pd_buf *out, const char *text)
{
  for (; *text; text++)
    if (pd_buf_byte(out, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : (uint8_t)*text, NULL)) return;
}

static void write_plain(pd_buf *out, pd_log_level level, const char *message, const pd_log_field *fields, size_t count)
{
  char time[PD_TIME_TEXT_SIZE];
  bool is_cut = pd_buf_printf(out, NULL, "%s %-5s ", pd_time_text(pd_clock_now_ms(NULL), time), names[level]) != PD_OK;
  add_plain(out, message);
  for (size_t i = 0; i < count && !is_cut; i++) {
    is_cut = pd_buf_printf(out, NULL, " %s=", fields[i].name) != PD_OK;
    if (fields[i].text)
      add_plain(out, fields[i].text);
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
