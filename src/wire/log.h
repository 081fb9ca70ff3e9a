/*
 * log.h: what the server says about itself: one line an event, for people or as JSON, on a descriptor. Names and numbers only: no token, no
 * passphrase and no value is ever given to it.
 */
#ifndef PD_WIRE_LOG_H
#define PD_WIRE_LOG_H

#include <perdure/perdure.h>

typedef enum pd_log_level { PD_LOG_ERROR = 0, PD_LOG_WARN, PD_LOG_INFO, PD_LOG_DEBUG } pd_log_level;

typedef struct pd_log_options {
  int fd;
  bool is_json;
  pd_log_level level; /* what is further down is left out */
} pd_log_options;

/* A member of a line. `text` NULL: the number. */
typedef struct pd_log_field {
  const char *name, *text;
  int64_t number;
} pd_log_field;

/* One write() a line, so that lines of several threads do not mix. What cannot be written is dropped. */
void pd_log_line(const pd_log_options *options, pd_log_level level, const char *message, const pd_log_field *fields, size_t count);
/* A line with a formatted message and no fields. */
void pd_log_say(const pd_log_options *options, pd_log_level level, const char *fmt, ...) PD_PRINTF(3, 4);
/* "error", "warn", "info", "debug"; false if it is none. */
bool pd_log_level_parse(const char *text, pd_log_level *out);

#endif
