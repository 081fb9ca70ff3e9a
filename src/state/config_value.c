/*
 * config_value.c: settings as people write them: "50 MiB", "1h 30m", 30 days.
 *
 * Bytes: B, KB MB GB TB by the thousand, KiB MiB GiB TiB and K M G T by 1024. Times: ms, s, m, h, d, w; several may be added up.
 * A number alone counts bytes, milliseconds or days. Every text that is written here is read back as the same number.
 */
#include "base/base.h"
#include "state/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

typedef struct unit {
  const char *name;
  uint64_t size;
} unit;

#define KI ((uint64_t)1024)
#define K ((uint64_t)1000)
#define DAY_MS (86400 * K)

/* The first name of a size is the one that is written. */
static const unit byte_units[] = {{"TiB", KI *KI *KI *KI},
                                  {"TB", K *K *K *K},
                                  {"GiB", KI *KI *KI},
                                  {"GB", K *K *K},
                                  {"MiB", KI *KI},
                                  {"MB", K *K},
                                  {"KiB", KI},
                                  {"KB", K},
                                  {"B", 1},
                                  {"T", KI *KI *KI *KI},
                                  {"G", KI *KI *KI},
                                  {"M", KI *KI},
                                  {"K", KI},
                                  {NULL, 0}};
static const unit time_units[] = {{"d", DAY_MS}, {"h", 3600 * K},   {"m", 60 * K},   {"s", K},
                                  {"ms", 1},     {"w", 7 * DAY_MS}, {"min", 60 * K}, {NULL, 0}};
static const unit day_units[] = {{"d", 1}, {"w", 7}, {NULL, 0}};
static const unit no_units[] = {{NULL, 0}};

static const unit *units_of(pd_config_unit kind)
{
  static const unit *const tables[] = {no_units, byte_units, time_units, day_units};
  return kind < COUNT_OF(tables) ? tables[kind] : no_units;
}

const char *pd_config_form(pd_config_unit kind)
{
  static const char *const forms[] = {"a whole number",
                                      "a size like 500000, \"64 KiB\" or \"50 MB\"",
                                      "a time like 500 (milliseconds), \"30s\", \"15m\", \"1h\" or \"7d\"",
                                      "a number of days like 30 or \"4w\"",
                                      "true or false",
                                      "a text",
                                      "one of its words",
                                      "a file's path",
                                      "a list of texts",
                                      "a list of absolute folders"};
  return forms[kind];
}

/* The word for 0, if it has one. */
static const char *zero_word(const pd_config_item *item)
{
  static const char *const words[] = {"never", "forever"};
  char end[16];
  for (size_t i = 0; i < COUNT_OF(words); i++) {
    int size = snprintf(end, sizeof end, "0: %s", words[i]);
    size_t about_size = strlen(item->about);
    if (about_size >= (size_t)size && strcmp(item->about + about_size - size, end) == 0) return words[i];
  }
  return NULL;
}

/* A number without sign; _ may stand between digits. */
static bool read_number(const char **at, uint64_t *out)
{
  uint64_t number = 0;
  const char *start = *at, *p = start;
  for (; isdigit((unsigned char)*p) || (*p == '_' && p > start && isdigit((unsigned char)p[-1]) && isdigit((unsigned char)p[1])); p++) {
    if (*p == '_') continue;
    uint64_t digit = (uint64_t)(*p - '0');
    if (number > (UINT64_MAX - digit) / 10) return false;
    number = number * 10 + digit;
  }
  if (p == start || (*start == '0' && p > start + 1)) return false; /* as number.h says, but for the _ */
  *at = p;
  *out = number;
  return true;
}

static const unit *read_unit(const char **at, const unit *units)
{
  size_t size = 0;
  while (isalpha((unsigned char)(*at)[size])) size++;
  for (; size && units->name; units++)
    if (strlen(units->name) == size && strncasecmp(units->name, *at, size) == 0) {
      *at += size;
      return units;
    }
  return NULL;
}

static void skip_blanks(const char **at)
{
  while (**at == ' ') (*at)++;
}

static bool parse_flag(const char *text, uint64_t *out)
{
  *out = strcmp(text, "true") == 0;
  return *out || strcmp(text, "false") == 0;
}

bool pd_config_parse(const pd_config_item *item, const char *text, uint64_t *out)
{
  if (item->unit == PD_UNIT_FLAG) return parse_flag(text, out);
  uint64_t total = 0, number;
  const char *zero = zero_word(item);
  if (zero && strcasecmp(text, zero) == 0) return *out = 0, true;
  for (bool is_first = true; is_first || *text; is_first = false) {
    skip_blanks(&text);
    if (!read_number(&text, &number)) return false;
    skip_blanks(&text);
    const unit *found = read_unit(&text, units_of(item->unit));
    if (!found && (!is_first || *text)) return false;
    if (!is_first && item->unit != PD_UNIT_MS) return false;
    uint64_t size = found ? found->size : 1;
    if (number > (UINT64_MAX - total) / size) return false;
    total += number * size;
    skip_blanks(&text);
  }
  *out = total;
  return true;
}

const char *pd_config_text(const pd_config_item *item, uint64_t number, char out[PD_CONFIG_TEXT_SIZE])
{
  const unit *at = units_of(item->unit);
  if (item->unit == PD_UNIT_FLAG) return number ? "true" : "false";
  if (!number && zero_word(item)) {
    snprintf(out, PD_CONFIG_TEXT_SIZE, "%s", zero_word(item));
    return out;
  }
  while (at->name && (!number || number % at->size)) at++;
  const char *blank = item->unit == PD_UNIT_BYTES && at->name ? " " : "";
  snprintf(out, PD_CONFIG_TEXT_SIZE, "%" PRIu64 "%s%s", number / (at->name ? at->size : 1), blank, at->name ? at->name : "");
  return out;
}
