/* toml.c: the document: lines, keys, tables. Values are in toml_value.c, checks across lines in toml_names.c. */
#include "base/toml.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/toml_parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- memory ---- */

typedef struct block {
  struct block *next;
  size_t used, size;
  char bytes[];
} block;

#define BLOCK_SIZE 16384

void *pd_toml_take(toml_parser *p, size_t size)
{
  block *first = p->doc->memory;
  size = (size + 15) & ~(size_t)15;
  if (!first || first->size - first->used < size) {
    size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    block *made = malloc(sizeof *made + room);
    if (!made) return NULL;
    *made = (block){first, 0, room};
    p->doc->memory = first = made;
  }
  first->used += size;
  return first->bytes + (first->used - size);
}

char *pd_toml_copy(toml_parser *p, const void *text, size_t size)
{
  char *copy = pd_toml_take(p, size + 1);
  if (!copy) return NULL;
  if (size) memcpy(copy, text, size);
  copy[size] = 0;
  return copy;
}

void pd_toml_done(pd_toml *toml)
{
  for (block *at = toml->memory, *next; at; at = next) {
    next = at->next;
    free(at);
  }
  free(toml->tables);
  free(toml->entries);
  *toml = (pd_toml){0};
}

/* ---- errors ---- */

pd_code pd_toml_bad(const toml_parser *p, size_t line, const char *fmt, ...)
{
  char what[PD_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  return pd_error_set(p->err, PD_INVALID, "%.200s:%zu: %s", p->file, line, what);
}

pd_code pd_toml_no_memory(const toml_parser *p)
{
  return pd_error_memory(p->err, "a configuration file");
}

const char *pd_toml_kind_name(pd_toml_kind kind)
{
  static const char *const names[] = {"nothing", "a string", "an integer", "a boolean", "an array"};
  return (unsigned)kind < COUNT_OF(names) ? names[kind] : names[0];
}

/* ---- white space ---- */

static void skip_blanks(toml_parser *p)
{
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
}

static bool is_control(uint8_t c)
{
  return (c < 0x20 && c != '\t') || c == 0x7F;
}

/* Is a line's end here? \r\n counts, \r alone does not. */
static bool at_line_end(const toml_parser *p)
{
  return p->at == p->end || *p->at == '\n' || (*p->at == '\r' && p->at + 1 < p->end && p->at[1] == '\n');
}

pd_code pd_toml_skip_comment(toml_parser *p)
{
  skip_blanks(p);
  if (p->at < p->end && *p->at == '#')
    for (; !at_line_end(p); p->at++)
      if (is_control(*p->at)) return pd_toml_bad(p, p->line, "a control character in a comment");
  return PD_OK;
}

static void next_line(toml_parser *p)
{
  if (p->at == p->end) return;
  p->at += *p->at == '\r' ? 2 : 1;
  p->line++;
}

pd_code pd_toml_skip_lines(toml_parser *p)
{
  for (;;) {
    TRY(pd_toml_skip_comment(p));
    if (p->at == p->end || !at_line_end(p)) return PD_OK;
    next_line(p);
  }
}

/* ---- keys ---- */

static bool is_bare(uint8_t c)
{
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* One part of a key: bare, or quoted with the same characters. */
static pd_code read_part(toml_parser *p, pd_buf *out)
{
  uint8_t quote = p->at < p->end && (*p->at == '"' || *p->at == '\'') ? *p->at++ : 0;
  const uint8_t *start = p->at;
  while (p->at < p->end && is_bare(*p->at)) p->at++;
  if (p->at == start) return pd_toml_bad(p, p->line, "a key was expected");
  if (pd_buf_append(out, start, (size_t)(p->at - start), NULL)) return pd_toml_no_memory(p);
  if (!quote) return PD_OK;
  if (p->at == p->end || *p->at != quote)
    return pd_toml_bad(p, p->line, "a key in quotes may have letters, digits, _ and - only, and must end with its quote");
  p->at++;
  return PD_OK;
}

/* A dotted key, the parts joined by dots. */
static pd_code read_key(toml_parser *p, const char **out)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  for (;;) {
    TRY(read_part(p, &key));
    if (key.size > PD_TOML_NAME_MAX) return pd_toml_bad(p, p->line, "a name is longer than %d bytes", PD_TOML_NAME_MAX);
    skip_blanks(p);
    if (p->at == p->end || *p->at != '.') break;
    p->at++;
    skip_blanks(p);
    if (pd_buf_byte(&key, '.', NULL)) return pd_toml_no_memory(p);
  }
  *out = pd_toml_copy(p, key.data, key.size);
  return *out ? PD_OK : pd_toml_no_memory(p);
}

/* ---- lines ---- */

static pd_code add_table(toml_parser *p, const char *name, bool is_list)
{
  pd_toml *doc = p->doc;
  size_t index = 0;
  for (size_t i = doc->table_count; i > 0 && is_list && !index; i--)
    if (doc->tables[i - 1].is_list && strcmp(doc->tables[i - 1].name, name) == 0) index = doc->tables[i - 1].index + 1;
  if (pd_array_grow(&doc->tables, doc->table_count, &doc->table_capacity, sizeof doc->tables[0], "tables", NULL))
    return pd_toml_no_memory(p);
  doc->tables[doc->table_count++] = (pd_toml_table){.name = name, .is_list = is_list, .index = index, .line = p->line};
  return PD_OK;
}

/* [name] or [[name]]; the first bracket is there. */
static pd_code read_table(toml_parser *p)
{
  const char *name = NULL;
  p->at++;
  bool is_list = p->at < p->end && *p->at == '[';
  p->at += is_list;
  skip_blanks(p);
  TRY(read_key(p, &name));
  for (int i = 0; i <= is_list; i++, p->at++)
    if (p->at == p->end || *p->at != ']')
      return pd_toml_bad(p, p->line, "the name of the table '%s' does not end with %s", name, is_list ? "]]" : "]");
  if (p->doc->table_count >= PD_TOML_TABLES_MAX) return pd_toml_bad(p, p->line, "more than %d tables", PD_TOML_TABLES_MAX);
  return add_table(p, name, is_list);
}

static const char *full_name(toml_parser *p, const char *key)
{
  const char *table = p->doc->tables[p->doc->table_count - 1].name;
  size_t table_size = strlen(table), key_size = strlen(key);
  if (!table_size) return key;
  char *name = pd_toml_take(p, table_size + key_size + 2);
  if (!name) return NULL;
  memcpy(name, table, table_size);
  name[table_size] = '.';
  memcpy(name + table_size + 1, key, key_size + 1);
  return name;
}

/* key = value */
static pd_code read_entry(toml_parser *p)
{
  pd_toml *doc = p->doc;
  pd_toml_entry entry = {.table = doc->table_count - 1, .line = p->line};
  TRY(read_key(p, &entry.key));
  if (p->at == p->end || *p->at != '=') return pd_toml_bad(p, p->line, "'%s' is not followed by =", entry.key);
  p->at++;
  skip_blanks(p);
  entry.name = full_name(p, entry.key);
  if (!entry.name) return pd_toml_no_memory(p);
  TRY(pd_toml_read_value(p, entry.name, &entry.value));
  if (pd_array_grow(&doc->entries, doc->entry_count, &doc->entry_capacity, sizeof doc->entries[0], "entries", NULL))
    return pd_toml_no_memory(p);
  doc->entries[doc->entry_count++] = entry;
  return PD_OK;
}

static pd_code read_document(toml_parser *p)
{
  TRY(add_table(p, "", false));
  for (;;) {
    TRY(pd_toml_skip_lines(p));
    if (p->at == p->end) return PD_OK;
    if (*p->at == '[')
      TRY(read_table(p));
    else
      TRY(read_entry(p));
    TRY(pd_toml_skip_comment(p));
    if (!at_line_end(p)) return pd_toml_bad(p, p->line, "something follows where the line should end");
  }
}

/* The line of the first byte that is no UTF-8, which is there. */
static size_t bad_utf8_line(pd_bytes text)
{
  size_t line = 1;
  const uint8_t *at = text.data, *end = at + text.size;
  while (at < end) {
    const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
    size_t size = (size_t)((stop ? stop : end) - at);
    if (!pd_utf8_check((pd_bytes){at, size}) || !stop) break;
    at = stop + 1;
    line++;
  }
  return line;
}

pd_code pd_toml_parse(pd_bytes text, const char *file, pd_toml *out, pd_error *err)
{
  *out = (pd_toml){0};
  const uint8_t *at = text.data ? text.data : (const uint8_t *)"";
  toml_parser p = {.at = at, .end = at + text.size, .line = 1, .file = file, .doc = out, .err = err};
  if (text.size > PD_TOML_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "%.200s is %zu bytes long; at most %zu", file, text.size, PD_TOML_SIZE_MAX);
  if (!pd_utf8_check(text)) return pd_toml_bad(&p, bad_utf8_line(text), "this is no UTF-8");
  TRY(read_document(&p));
  return pd_toml_check_names(&p);
}

static void close_file(FILE **f)
{
  if (*f) fclose(*f);
}

pd_code pd_toml_read(const char *path, pd_toml *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(close_file) FILE *f = fopen(path, "rbe");
  char part[4096];
  size_t got;
  *out = (pd_toml){0};
  if (!f) return pd_error_set(err, errno == ENOENT ? PD_NOT_FOUND : PD_STORAGE, "cannot open %.200s: %s", path, strerror(errno));
  while ((got = fread(part, 1, sizeof part, f)) && text.size <= PD_TOML_SIZE_MAX) TRY(pd_buf_append(&text, part, got, err));
  if (ferror(f)) return pd_error_set(err, PD_STORAGE, "cannot read %.200s: %s", path, strerror(errno));
  return pd_toml_parse(pd_buf_bytes(&text), path, out, err);
}
