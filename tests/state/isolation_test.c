/*
 * isolation_test.c: no agent ever sees another's data, whatever it calls with whatever it knows of the other. A victim puts a secret
 * wherever capabilities let it. A stranger that knows the victim's name, keys and every id then calls each capability of the table
 * with these in every field; the secret may be in no answer, and the victim's state must be as it was. New capabilities are tried too,
 * because the inputs are made from their schemas.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "s3cr3t-7f3a"
#define VICTIM "victim"
#define STRANGER "stranger"
#define KNOWN_MAX 64
#define KNOWN_SIZE 128

/* What the stranger knows: names and ids, never the secret. */
typedef struct known {
  char texts[KNOWN_MAX][KNOWN_SIZE];
  size_t count;
} known;

static void learn(known *k, const char *text, size_t size)
{
  if (!size || size >= KNOWN_SIZE || k->count == KNOWN_MAX) return;
  for (size_t i = 0; i < k->count; i++)
    if (strlen(k->texts[i]) == size && memcmp(k->texts[i], text, size) == 0) return;
  memcpy(k->texts[k->count], text, size);
  k->texts[k->count++][size] = 0;
}

static bool is_id(pd_json key)
{
  pd_bytes raw = key.raw; /* with its quotes */
  return raw.size >= 4 && memcmp((const char *)raw.data + raw.size - 3, "id\"", 3) == 0;
}

/* Every member whose name ends in "id", at any depth of what the victim was answered. */
static void learn_ids(known *k, pd_json value)
{
  pd_json key, item;
  pd_json_walk walk = pd_json_walk_begin(value);
  while (pd_json_walk_next(&walk, &key, &item)) {
    if (item.kind == PD_JSON_STRING && is_id(key)) learn(k, (const char *)item.raw.data + 1, item.raw.size - 2);
    if (item.kind == PD_JSON_OBJECT || item.kind == PD_JSON_ARRAY) learn_ids(k, item);
  }
}

static void act(world *w, known *k, const char *capability, const char *input)
{
  pd_json answer;
  (void)!world_call(w, capability, input); /* what is not there yet, or needs an approval, still may answer an id */
  if (pd_json_parse(pd_buf_bytes(&w->out), &answer, NULL) == PD_OK) learn_ids(k, answer);
}

/* Secrets wherever they can be put, and a key that has one in its name. */
static void hide_secrets(world *w, known *k)
{
  static const char *const calls[][2] = {
    {"state.persistent.set", "{\"key\":\"plan\",\"value\":\"" SECRET "\"}"},
    {"state.persistent.set", "{\"key\":\"plan\",\"value\":{\"n\":\"" SECRET "\"}}"},
    {"state.persistent.set", "{\"key\":\"hidden-" SECRET "\",\"value\":1}"},
    {"state.session.set", "{\"key\":\"plan\",\"value\":\"" SECRET "\"}"},
    {"state.session.set", "{\"key\":\"hidden-" SECRET "\",\"value\":1}"},
    {"queue.send", "{\"to\":\"" VICTIM "\",\"body\":\"" SECRET "\"}"},
    {"state.shared.watch", "{}"},
    {"state.snapshot.create", "{}"},
    {"state.snapshot.list", "{}"},
    {"state.backup.create", "{\"agent\":\"" VICTIM "\"}"},
    {"state.backup.list", "{}"},
    {"state.persistent.list", "{\"prefix\":\"hidden-" SECRET "\"}"},
    {"audit.list", "{}"},
  };
  w->agent = VICTIM;
  world_begin_session(w);
  learn(k, w->session, strlen(w->session));
  for (size_t i = 0; i < COUNT_OF(calls); i++) act(w, k, calls[i][0], calls[i][1]);
}

/* ---- inputs from schemas ---- */

static void write_field(pd_json_writer *in, pd_json schema, const char *text)
{
  pd_json type = pd_json_member(schema, "type");
  uint64_t least = 0;
  if (!pd_json_u64(pd_json_member(schema, "minimum"), &least)) least = 0;
  pd_json choices = pd_json_member(schema, "enum"), choice;
  pd_json_walk walk = pd_json_walk_begin(choices);
  if (choices.kind == PD_JSON_ARRAY && pd_json_walk_next(&walk, NULL, &choice))
    pd_json_value(in, choice);
  else if (pd_json_is(type, "integer"))
    pd_json_number(in, least);
  else if (pd_json_is(type, "boolean"))
    pd_json_bool(in, true);
  else if (pd_json_is(type, "object"))
    pd_json_open(in, '{'), pd_json_close(in, '}');
  else if (pd_json_is(type, "array"))
    pd_json_open(in, '['), pd_json_text(in, pd_text(text)), pd_json_close(in, ']');
  else
    pd_json_text(in, pd_text(text));
}

static bool is_required(pd_json inputs, pd_json name)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(inputs, "required"));
  while (pd_json_walk_next(&walk, NULL, &item))
    if (item.raw.size == name.raw.size && memcmp(item.raw.data, name.raw.data, name.raw.size) == 0) return true;
  return false;
}

/* `text` in every field that takes one, or else only in those that are required and the `only`-th. */
static void make_input(const pd_capability_info *info, const char *text, int only, pd_buf *out, int *field_count)
{
  pd_json document, name, schema;
  pd_json_writer in = {.out = out};
  char key[KNOWN_SIZE];
  pd_buf_clear(out);
  assert_int_equal(pd_json_parse(pd_text(info->document), &document, NULL), PD_OK);
  pd_json inputs = pd_json_member(document, "inputs");
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(inputs, "properties"));
  pd_json_open(&in, '{');
  for (*field_count = 0; pd_json_walk_next(&walk, &name, &schema); ++*field_count) {
    if (only >= 0 && only != *field_count && !is_required(inputs, name)) continue;
    snprintf(key, sizeof key, "%.*s", (int)name.raw.size - 2, (const char *)name.raw.data + 1);
    pd_json_key(&in, key);
    write_field(&in, schema, text);
  }
  pd_json_close(&in, '}');
  assert_int_equal(pd_buf_byte(out, 0, NULL), PD_OK);
}

/* ---- trying ---- */

static size_t has_secret(world *w)
{
  return memmem(w->out.data, w->out.size, SECRET, strlen(SECRET)) || strstr(w->err.message, SECRET) ? 1 : 0;
}

static bool only_reads(const pd_capability_info *info)
{
  pd_json document, tag;
  assert_int_equal(pd_json_parse(pd_text(info->document), &document, NULL), PD_OK);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(document, "tags"));
  while (pd_json_walk_next(&walk, NULL, &tag))
    if (pd_json_is(tag, "read")) return true;
  return false;
}

/* Everything there is, with all that is known. Returns how many answers had the secret in them. The victim itself only reads. */
static size_t try_all(world *w, const known *k, bool is_victim)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  pd_capability_info info;
  size_t seen = 0;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    if (is_victim && !only_reads(&info)) continue;
    for (size_t t = 0; t < k->count; t++) {
      int fields = 0;
      for (int only = -1; only < fields; only++) {
        make_input(&info, k->texts[t], only, &input, &fields);
        w->err.message[0] = 0;
        (void)!world_call(w, info.name, (const char *)input.data);
        seen += has_secret(w);
        if (!is_victim && seen) fail_msg("%s %s gave it away: %.400s", info.name, (const char *)input.data, (const char *)w->out.data);
      }
    }
  }
  return seen;
}

static char *state_of_victim(world *w, const char *session)
{
  w->agent = VICTIM;
  strcpy(w->session, session);
  world_ok(w, "state.persistent.query", "{\"prefix\":\"\"}");
  char *persistent = text_of("%s", (const char *)w->out.data);
  world_ok(w, "state.session.get", "{\"key\":\"plan\"}");
  char *all = text_of("%s %s", persistent, (const char *)w->out.data);
  free(persistent);
  return all;
}

static void isolation__no_agent_sees_anothers_data_by_any_capability(void **state)
{
  (void)state;
  static const char *const names[] = {VICTIM, "plan",   "pla",    "hidden",     STRANGER,    "*",
                                      "main", "shared", "system", "../" VICTIM, VICTIM ".db"};
  world *w = calloc(1, sizeof *w);
  known *k = calloc(1, sizeof *k);
  assert_true(w && k);
  char *here = temp_folder_new(), session[PD_SESSION_ID_SIZE]; /* paths that are written to lead here */
  assert_int_equal(chdir(here), 0);
  world_open(w, NULL);
  hide_secrets(w, k);
  strcpy(session, w->session);
  for (size_t i = 0; i < COUNT_OF(names); i++) learn(k, names[i], strlen(names[i]));
  char *before = state_of_victim(w, session);
  assert_non_null(strstr(before, SECRET));

  w->agent = STRANGER;
  strcpy(w->session, session); /* a session that is not its own */
  try_all(w, k, false);
  world_begin_session(w);
  try_all(w, k, false);

  char *after = state_of_victim(w, session);
  assert_string_equal(before, after);
  size_t seen = try_all(w, k, true); /* the victim itself, by the very same calls: else nothing was shown */
  print_message("# %zu things known; the victim sees the secret in %zu answers\n", k->count, seen);
  assert_true(seen >= 20);
  free(before);
  free(after);
  world_close(w);
  assert_int_equal(chdir("/"), 0);
  temp_folder_free(here);
  free(w);
  free(k);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(isolation__no_agent_sees_anothers_data_by_any_capability),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
