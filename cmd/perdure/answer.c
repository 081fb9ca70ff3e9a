/*
 * answer.c: see fields.h: what a capability answered, for people. Sizes and times are made readable where a person reads: on a terminal,
 * and in documents (answers with objects in them), which no script would take apart without --json.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "fields.h"

#include <stdio.h>

#define COLUMNS_MAX 16
#define CELL_MAX 60 /* characters of a cell on a terminal */
#define DEPTH_MAX 8
#define NAME_SIZE 64

/* ---- one value ---- */

static void print_scalar(out_stream *o, pd_json value)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (value.kind == PD_JSON_STRING && pd_json_decode(value, &text, NULL) == PD_OK)
    out_safe(o, pd_buf_bytes(&text));
  else
    out_safe(o, value.raw);
}

static bool has_suffix(pd_json key, const char *suffix)
{
  size_t size = strlen(suffix), key_size = key.raw.size - 2;
  return key_size >= size && memcmp((const char *)key.raw.data + 1 + key_size - size, suffix, size) == 0;
}

/* "2026-11-16T04:48:16.142Z" as the door writes times, with its quotes. */
static bool is_time(pd_json value)
{
  static const char form[] = "\"0000-00-00T00:00:00.000Z\"";
  const char *text = value.raw.data;
  if (value.kind != PD_JSON_STRING || value.raw.size != sizeof form - 1) return false;
  for (size_t i = 0; i < sizeof form - 1; i++)
    if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
  return true;
}

static void print_readable(out_stream *o, pd_json key, pd_json value)
{
  char size[OUT_SIZE_TEXT];
  uint64_t bytes;
  bool is_own = pd_json_is(key, "key") || pd_json_is(key, "value") || pd_json_is(key, "body"); /* the agent's, not the door's */
  if (value.kind == PD_JSON_NONE || value.kind == PD_JSON_NULL)
    out_text(o, "-");
  else if (!is_own && has_suffix(key, "_bytes") && pd_json_u64(value, &bytes))
    out_text(o, out_size(bytes, size));
  else if (!is_own && is_time(value))
    out_printf(o, "%.10s %.8s UTC", (const char *)value.raw.data + 1, (const char *)value.raw.data + 12);
  else
    print_scalar(o, value);
}

/* ---- tables ---- */

typedef struct table {
  pd_json names[COLUMNS_MAX]; /* of all members that any row has */
  size_t widths[COLUMNS_MAX];
  size_t count, indent;
  bool is_aligned;
} table;

/* Characters in `text`; it is cut to CELL_MAX of them, the last one "…" then. */
static size_t fit_cell(pd_buf *text)
{
  size_t count = 0, cut = 0;
  for (size_t i = 0; i < text->size; i++) {
    if ((text->data[i] & 0xC0) == 0x80) continue;
    if (count == CELL_MAX - 1) cut = i;
    count++;
  }
  if (count <= CELL_MAX) return count;
  text->size = cut;
  return pd_buf_append(text, "…", strlen("…"), NULL) ? CELL_MAX - 1 : CELL_MAX;
}

/* A cell as a terminal shows it; its width. */
static size_t render_cell(pd_json key, pd_json value, pd_buf *out)
{
  out_stream cell = {.is_memory = true};
  print_readable(&cell, key, value);
  *out = cell.buf;
  return fit_cell(out);
}

static pd_json cell_of(const table *t, size_t column, pd_json row)
{
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "%.*s", (int)t->names[column].raw.size - 2, (const char *)t->names[column].raw.data + 1);
  return pd_json_member(row, name);
}

static void add_columns(table *t, pd_json row)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(row);
  while (row.kind == PD_JSON_OBJECT && pd_json_walk_next(&walk, &key, &value)) {
    size_t i = 0;
    while (i < t->count && !pd_bytes_equal(t->names[i].raw, key.raw)) i++;
    if (i == t->count && i < COLUMNS_MAX && key.raw.size - 2 < NAME_SIZE) t->names[t->count++] = key;
  }
}

static void measure(table *t, pd_json list)
{
  pd_json row;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &row)) add_columns(t, row);
  if (!t->is_aligned) return;
  for (size_t i = 0; i < t->count; i++) t->widths[i] = t->names[i].raw.size - 2;
  walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &row))
    for (size_t i = 0; i < t->count; i++) {
      CLEANUP(pd_buf_done) pd_buf text = {0};
      size_t width = render_cell(t->names[i], cell_of(t, i, row), &text);
      if (width > t->widths[i]) t->widths[i] = width;
    }
}

static void print_row(out_stream *o, const table *t, pd_json row, bool is_head)
{
  out_printf(o, "%*s", (int)t->indent, "");
  for (size_t i = 0; i < t->count; i++) {
    pd_json value = is_head ? t->names[i] : cell_of(t, i, row);
    if (!t->is_aligned) {
      if (i) out_text(o, "\t");
      print_scalar(o, value);
      continue;
    }
    CLEANUP(pd_buf_done) pd_buf text = {0};
    size_t width = render_cell(t->names[i], value, &text);
    out_bytes(o, pd_buf_bytes(&text));
    if (i + 1 < t->count) out_printf(o, "%*s", (int)(t->widths[i] - width) + 2, "");
  }
  out_text(o, "\n");
}

/* Columns by name: a member's key as JSON has it, quotes and all. `room` holds them. */
static void fix_columns(table *t, const char *columns, char room[COLUMNS_MAX][NAME_SIZE + 2])
{
  while (columns && *columns && t->count < COLUMNS_MAX) {
    size_t size = strcspn(columns, " ");
    int length = snprintf(room[t->count], NAME_SIZE + 2, "\"%.*s\"", (int)size, columns);
    t->names[t->count] = (pd_json){{room[t->count], (size_t)length}, PD_JSON_STRING};
    t->count++;
    columns += size + strspn(columns + size, " ");
  }
}

static void print_table(out_stream *o, pd_json list, const char *columns, size_t indent, bool is_aligned)
{
  table t = {.indent = indent, .is_aligned = is_aligned};
  char room[COLUMNS_MAX][NAME_SIZE + 2];
  pd_json row;
  if (columns && !is_aligned)
    fix_columns(&t, columns, room);
  else
    measure(&t, list);
  if (is_aligned && t.count) {
    out_set(o, OUT_DIM);
    print_row(o, &t, (pd_json){0}, true);
    out_set(o, OUT_PLAIN);
  }
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &row) && !out_is_closed(o)) {
    if (row.kind == PD_JSON_OBJECT) {
      print_row(o, &t, row, false);
    } else {
      out_printf(o, "%*s", (int)indent, "");
      print_scalar(o, row);
      out_text(o, "\n");
    }
  }
}

/* ---- documents ---- */

static bool is_empty(pd_json value)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(value);
  return (value.kind == PD_JSON_OBJECT || value.kind == PD_JSON_ARRAY) && !pd_json_walk_next(&walk, NULL, &item);
}

static void print_members(out_stream *o, pd_json object, size_t depth, bool is_readable)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(object);
  while (pd_json_walk_next(&walk, &key, &value)) {
    bool is_deep = is_readable && depth < DEPTH_MAX && !is_empty(value);
    out_printf(o, "%*s", (int)(2 * depth), "");
    out_set(o, OUT_NAME);
    print_scalar(o, key);
    out_set(o, OUT_PLAIN);
    out_text(o, ":");
    if (is_deep && value.kind == PD_JSON_OBJECT) {
      out_text(o, "\n");
      print_members(o, value, depth + 1, true);
      continue;
    }
    if (is_deep && value.kind == PD_JSON_ARRAY) {
      out_text(o, "\n");
      print_table(o, value, NULL, 2 * depth + 2, true);
      continue;
    }
    out_text(o, " ");
    if (!is_readable)
      print_scalar(o, value);
    else if (is_empty(value))
      out_text(o, "none");
    else
      print_readable(o, key, value);
    out_text(o, "\n");
  }
}

static bool has_objects(pd_json answer)
{
  pd_json value;
  pd_json_walk walk = pd_json_walk_begin(answer);
  while (pd_json_walk_next(&walk, NULL, &value))
    if (value.kind == PD_JSON_OBJECT) return true;
  return false;
}

/* ---- lists ---- */

/* The first array; PD_JSON_NONE if the answer is no list. */
static pd_json list_of(pd_json answer)
{
  pd_json value;
  pd_json_walk walk = pd_json_walk_begin(answer);
  while (!has_objects(answer) && pd_json_walk_next(&walk, NULL, &value))
    if (value.kind == PD_JSON_ARRAY) return value;
  return (pd_json){0};
}

/* What else the answer says that nobody should miss: what was left out, and that there is more. */
static void tell_rest(cli_session *cli, pd_json answer, pd_json list)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(answer);
  if (is_empty(list) && cli->out.is_terminal) cli_say(cli, "there are none");
  if (pd_json_true(pd_json_member(answer, "has_more"))) cli_say(cli, "there are more");
  while (pd_json_walk_next(&walk, &key, &value)) {
    if (value.kind != PD_JSON_ARRAY || value.raw.data == list.raw.data || is_empty(value)) continue;
    out_stream text = {.is_memory = true};
    print_scalar(&text, key);
    out_text(&text, ": ");
    print_scalar(&text, value);
    cli_say(cli, "%.*s", (int)text.buf.size, (const char *)text.buf.data);
    pd_buf_done(&text.buf);
  }
}

/* ---- answers ---- */

/* Text of several lines; what agents wrote into it does not steer the terminal. */
static pd_code print_text(cli_session *cli, pd_json value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_json_decode(value, &text, err));
  for (size_t at = 0; at < text.size;) {
    const uint8_t *end = memchr(text.data + at, '\n', text.size - at);
    size_t size = end ? (size_t)(end - text.data) - at : text.size - at;
    out_safe(&cli->out, (pd_bytes){text.data + at, size});
    out_text(&cli->out, "\n");
    at += size + 1;
  }
  return PD_OK;
}

/* The sections of a briefing that have lists, below its summary. */
static void print_details(cli_session *cli, pd_json briefing)
{
  pd_json key, section, value;
  pd_json_walk walk = pd_json_walk_begin(briefing);
  while (pd_json_walk_next(&walk, &key, &section)) {
    bool has_list = false;
    pd_json_walk inner = pd_json_walk_begin(section);
    while (section.kind == PD_JSON_OBJECT && pd_json_walk_next(&inner, NULL, &value))
      has_list = has_list || (value.kind == PD_JSON_ARRAY && !is_empty(value));
    if (!has_list) continue;
    out_text(&cli->out, "\n");
    out_set(&cli->out, OUT_NAME);
    print_scalar(&cli->out, key);
    out_set(&cli->out, OUT_PLAIN);
    out_text(&cli->out, ":\n");
    print_members(&cli->out, section, 1, true);
  }
}

static bool is_false(pd_json value)
{
  return value.kind == PD_JSON_BOOL && !pd_json_true(value);
}

pd_code answer_print(cli_session *cli, pd_bytes answer, const char *columns, pd_error *err)
{
  pd_json json;
  TRY(pd_json_parse(answer, &json, err));
  pd_json found = pd_json_member(json, "found"), stored = pd_json_member(json, "value"), list = list_of(json);
  if (is_false(found) || is_false(pd_json_member(json, "deleted")) || is_false(pd_json_member(json, "claimed")))
    cli->exit_code = CLI_EXIT_NEGATIVE;
  pd_json summary = pd_json_member(pd_json_member(json, "briefing"), "summary");
  if (cli->is_json) {
    out_bytes(&cli->out, answer);
    out_text(&cli->out, "\n");
  } else if (found.kind == PD_JSON_BOOL && stored.kind != PD_JSON_NONE) {
    if (cli->exit_code)
      cli_say(cli, "there is no such key");
    else
      out_bytes(&cli->out, stored.raw), out_text(&cli->out, "\n");
  } else if (list.kind == PD_JSON_ARRAY) {
    cli->out.wants_pager = cli->has_pager;
    print_table(&cli->out, list, columns, 0, cli->out.is_terminal);
    tell_rest(cli, json, list);
  } else if (summary.kind == PD_JSON_STRING) {
    cli->out.wants_pager = cli->has_pager;
    TRY(print_text(cli, summary, err));
    print_details(cli, pd_json_member(json, "briefing"));
  } else {
    print_members(&cli->out, json, 0, cli->out.is_terminal || has_objects(json));
  }
  return PD_OK;
}

pd_code answer_say(cli_session *cli, pd_bytes answer, const char *member, pd_error *err)
{
  pd_json json;
  TRY(pd_json_parse(answer, &json, err));
  pd_json value = pd_json_member(json, member);
  cli_say(cli, "%s: %.*s", member, (int)value.raw.size, (const char *)value.raw.data);
  return PD_OK;
}

pd_code answer_print_only(cli_session *cli, pd_bytes answer, const char *member, bool is_raw, pd_error *err)
{
  pd_json json;
  TRY(pd_json_parse(answer, &json, err));
  pd_json value = pd_json_member(json, member);
  if (is_raw) {
    out_bytes(&cli->out, value.raw);
    out_text(&cli->out, "\n");
    return PD_OK;
  }
  if (value.kind == PD_JSON_OBJECT) {
    cli->out.wants_pager = cli->has_pager;
    print_members(&cli->out, value, 0, true);
    return PD_OK;
  }
  print_scalar(&cli->out, value);
  out_text(&cli->out, "\n");
  return PD_OK;
}

pd_code answer_failed(cli_session *cli, const pd_buf *answer, pd_code code)
{
  pd_json json;
  if (pd_json_parse(pd_buf_bytes(answer), &json, NULL)) return code;
  pd_json error = pd_json_member(json, "error"), recovery;
  if (error.kind != PD_JSON_OBJECT) return code;
  if (cli->is_json) cli->told = true, fprintf(stderr, "%.*s\n", (int)answer->size, (const char *)answer->data);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(error, "recovery"));
  CLEANUP(pd_buf_done) pd_buf hint = {0};
  pd_json approval = pd_json_member(pd_json_member(error, "details"), "approval_id");
  if (approval.kind == PD_JSON_STRING)
    snprintf(cli->hint, sizeof cli->hint, "perdure approvals approve %.*s, then the same call again", (int)approval.raw.size - 2,
             (const char *)approval.raw.data + 1);
  else if (code == PD_SESSION)
    snprintf(cli->hint, sizeof cli->hint, "a new session: export PERDURE_SESSION=$(perdure session begin)");
  else if (code == PD_LOCKED && pd_json_is(pd_json_member(pd_json_member(error, "details"), "vault"), "missing"))
    snprintf(cli->hint, sizeof cli->hint, "make one with: perdure vault init");
  else if (code == PD_LOCKED)
    snprintf(cli->hint, sizeof cli->hint, "unlock it with: perdure vault unlock");
  else if (pd_json_walk_next(&walk, NULL, &recovery) && pd_json_decode(pd_json_member(recovery, "hint"), &hint, NULL) == PD_OK)
    snprintf(cli->hint, sizeof cli->hint, "%.*s", (int)hint.size, (const char *)hint.data);
  return code;
}
