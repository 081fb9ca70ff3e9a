/* mcp_prompt.c: the prompt `briefing`, and completion of what prompts and templates take. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#define VALUES_MAX 100    /* of one completion; the protocol's limit */
#define LOOKED_MAX 10000u /* who has more is told that there are more, not how many */
#define THREADS_PAGE 1000u

#define BRIEFING "state.briefing.generate"

pd_code pd_mcp_home_prompts(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)out_cursor;
  if (cursor.data) return pd_mcp_refuse_cursor(turn);
  if (!pd_mcp_sees(turn, BRIEFING)) return PD_OK;
  pd_json_raw(&turn->w, pd_text("{\"name\":\"briefing\",\"title\":\"Briefing\",\"description\":\"What changed since you were last here: "
                                "files, processes, approvals, messages, alerts, health.\",\"arguments\":[{\"name\":\"since\","
                                "\"description\":\"From this time on (ISO 8601); else since your last activity.\",\"required\":false},"
                                "{\"name\":\"detail_level\",\"description\":\"summary or detailed.\",\"required\":false}]}"));
  return turn->w.code;
}

/* The prompt's arguments are texts, and so are the capability's. */
static pd_code write_input(pd_mcp_turn *turn, pd_json arguments, pd_buf *out)
{
  static const char *const names[] = {"since", "detail_level"};
  pd_json_writer w = {.out = out, .err = &turn->err};
  pd_json_open(&w, '{');
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    pd_json value = pd_json_member(arguments, names[i]);
    if (value.kind == PD_JSON_NONE || pd_json_is(value, "")) continue;
    pd_json_key(&w, names[i]);
    pd_json_value(&w, value);
  }
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code write_message(pd_mcp_turn *turn, pd_bytes answer)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  TRY(pd_json_parse(answer, &json, &turn->err));
  pd_json briefing = pd_json_member(json, "briefing");
  TRY(pd_buf_printf(&text, &turn->err, "You are the agent '%s'. While you were away: ", turn->peer->agent));
  TRY(pd_json_decode(pd_json_member(briefing, "summary"), &text, &turn->err));
  TRY(pd_buf_printf(&text, &turn->err, "\n\nThe whole briefing:\n"));
  TRY(pd_buf_append(&text, briefing.raw.data, briefing.raw.size, &turn->err));
  pd_json_put_text(&turn->w, "description", "What changed since you were last here");
  pd_json_key(&turn->w, "messages");
  pd_json_open(&turn->w, '[');
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "role", "user");
  pd_json_key(&turn->w, "content");
  pd_mcp_text_block(&turn->w, pd_buf_bytes(&text));
  pd_json_close(&turn->w, '}');
  pd_json_close(&turn->w, ']');
  return turn->w.code;
}

pd_code pd_mcp_home_prompt(pd_mcp_turn *turn, const char *name, pd_json arguments)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  if (strcmp(name, "briefing") != 0 || !pd_mcp_sees(turn, BRIEFING))
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "there is no prompt %.200s", name);
  TRY(write_input(turn, arguments, &input));
  pd_code code = pd_mcp_call(turn, &who, BRIEFING, pd_buf_bytes(&input), &answer, &turn->err);
  if (code && pd_code_class(code) != PD_CLASS_HOST) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  return write_message(turn, pd_buf_bytes(&answer));
}

/* ---- completion ---- */

typedef struct found {
  pd_json_writer *w;
  pd_bytes prefix;
  size_t count, total;
  bool is_cut; /* there may be more than were looked at */
} found;

static bool add(found *f, pd_bytes text)
{
  if (f->total == LOOKED_MAX) {
    f->is_cut = true;
    return false;
  }
  if (f->total++ < VALUES_MAX) {
    pd_json_text(f->w, text);
    f->count++;
  }
  return !f->w->code;
}

static bool add_key(void *ctx, const pd_entry *entry)
{
  return add(ctx, entry->key);
}

static bool add_thread(void *ctx, pd_bytes id, pd_json thread)
{
  found *f = ctx;
  (void)thread;
  return !pd_bytes_starts(id, f->prefix) || add(f, id);
}

/* Ids of threads, newest first. */
static pd_code add_threads(pd_mcp_turn *turn, found *f)
{
  CLEANUP(pd_buf_done) pd_buf cursor = {0};
  for (size_t pages = 0; !f->is_cut && (!pages || cursor.size); pages++) {
    if (pages == LOOKED_MAX / THREADS_PAGE) {
      f->is_cut = true;
      return PD_OK;
    }
    TRY(pd_mcp_threads_page(turn, &cursor, THREADS_PAGE, add_thread, f, &turn->err));
  }
  return PD_OK;
}

static void add_words(found *f, const char *const *words, pd_bytes prefix)
{
  for (; *words; words++) {
    if (!pd_bytes_starts(pd_text(*words), prefix)) continue;
    add(f, pd_text(*words));
  }
}

static pd_code complete(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value, found *f)
{
  static const char *const levels[] = {"summary", "detailed", NULL};
  pd_bytes none = {0};
  pd_json type = pd_json_member(reference, "type"), uri = pd_json_member(reference, "uri");
  if (pd_json_is(type, "ref/prompt")) {
    if (!pd_json_is(pd_json_member(reference, "name"), "briefing") || !pd_mcp_sees(turn, BRIEFING))
      return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "there is no such prompt");
    if (strcmp(argument, "detail_level") == 0) add_words(f, levels, value);
    return PD_OK;
  }
  if (!pd_json_is(type, "ref/resource"))
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.ref.type is neither ref/prompt nor ref/resource");
  if (strcmp(argument, "id") == 0 && pd_json_is(uri, "state://threads/{id}")) return add_threads(turn, f);
  if (strcmp(argument, "key") != 0) return PD_OK;
  if (pd_json_is(uri, "state://persistent/{key}")) return pd_mcp_keys_each(turn, PD_MCP_PERSISTENT, value, none, add_key, f, &turn->err);
  if (pd_json_is(uri, "state://shared/{key}")) return pd_mcp_keys_each(turn, PD_MCP_SHARED, value, none, add_key, f, &turn->err);
  return PD_OK;
}

pd_code pd_mcp_home_complete(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value)
{
  found f = {.w = &turn->w, .prefix = value};
  pd_json_key(&turn->w, "values");
  pd_json_open(&turn->w, '[');
  TRY(complete(turn, reference, argument, value, &f));
  pd_json_close(&turn->w, ']');
  if (!f.is_cut) pd_json_put_number(&turn->w, "total", f.total);
  pd_json_put_bool(&turn->w, "hasMore", f.is_cut || f.total > f.count);
  return turn->w.code;
}
