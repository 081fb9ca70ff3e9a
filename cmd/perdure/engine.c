/* engine.c: keys, refs and marks: see engine.h. */
#include "engine.h"

#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "far.h"

#include <stdio.h>

#define PAGE_MAX 10000 /* of store.list */

pd_code engine_open(cli_session *cli, cli_open_mode mode, pd_error *err)
{
  return cli->is_remote ? PD_OK : cli_open(cli, mode, err);
}

const char *engine_ref(const cli_session *cli)
{
  return cli->is_remote ? cli->far_ref : pd_store_ref(cli->store);
}

/* ---- answers of a server ---- */

void engine_answer_done(engine_answer *a)
{
  pd_buf_done(&a->input);
  pd_buf_done(&a->body);
  pd_buf_done(&a->texts);
}

void engine_begin(const cli_session *cli, engine_answer *a, pd_error *err)
{
  pd_buf_clear(&a->input);
  a->w = (pd_json_writer){.out = &a->input, .err = err};
  pd_json_open(&a->w, '{');
  pd_json_put_text(&a->w, "store", cli->agent);
}

pd_code engine_ask(cli_session *cli, engine_answer *a, const char *capability, pd_error *err)
{
  pd_json_close(&a->w, '}');
  TRY(a->w.code);
  pd_code code = far_store(cli, capability, pd_buf_bytes(&a->input), &a->body, err);
  if (code == PD_NOT_FOUND && far_is_without_store(&a->body)) return cli_no_store(cli, err);
  TRY(code);
  pd_buf_clear(&a->texts);
  TRY(pd_buf_reserve(&a->texts, a->body.size + 1, err)); /* no text is longer than its JSON: what was taken does not move */
  return pd_json_parse(pd_buf_bytes(&a->body), &a->json, err);
}

void engine_put_note(engine_answer *a, const pd_note *note)
{
  if (note->ref) pd_json_put_text(&a->w, "ref", note->ref);
  if (note->author) pd_json_put_text(&a->w, "author", note->author);
  if (note->run) pd_json_put_text(&a->w, "run", note->run);
  if (note->reason) pd_json_put_text(&a->w, "reason", note->reason);
}

void engine_put_base64(engine_answer *a, const char *name, pd_bytes bytes)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (a->w.code) return;
  a->w.code = pd_base64_encode(bytes, &text, a->w.err);
  pd_json_put_bytes(&a->w, name, pd_buf_bytes(&text));
}

pd_bytes engine_bytes(engine_answer *a, pd_json object, const char *name)
{
  size_t from = a->texts.size;
  if (pd_json_decode(pd_json_member(object, name), &a->texts, NULL)) return (pd_bytes){"", 0};
  size_t size = a->texts.size - from;
  if (pd_buf_byte(&a->texts, 0, NULL)) return (pd_bytes){"", 0};
  return (pd_bytes){a->texts.data + from, size};
}

const char *engine_text(engine_answer *a, pd_json object, const char *name)
{
  return engine_bytes(a, object, name).data;
}

pd_bytes engine_base64(engine_answer *a, pd_json object, const char *name)
{
  pd_json text = pd_json_member(object, name);
  size_t from = a->texts.size;
  if (text.kind != PD_JSON_STRING) return (pd_bytes){"", 0};
  if (pd_base64_decode((pd_bytes){(const char *)text.raw.data + 1, text.raw.size - 2}, &a->texts, NULL)) return (pd_bytes){"", 0};
  return (pd_bytes){a->texts.data + from, a->texts.size - from};
}

uint64_t engine_number(pd_json object, const char *name)
{
  uint64_t number = 0;
  return pd_json_u64(pd_json_member(object, name), &number) ? number : 0;
}

bool engine_flag(pd_json object, const char *name)
{
  pd_json value = pd_json_member(object, name);
  return value.kind == PD_JSON_BOOL && pd_json_true(value);
}

pd_id engine_id(pd_json object, const char *name)
{
  pd_json text = pd_json_member(object, name);
  char hex[PD_ID_HEX_SIZE] = "";
  pd_id id = {0};
  if (text.raw.size != PD_ID_HEX_SIZE + 1) return id;
  memcpy(hex, (const char *)text.raw.data + 1, PD_ID_HEX_SIZE - 1);
  return pd_id_parse(hex, &id) ? id : (pd_id){0};
}

pd_commit engine_commit(pd_json object)
{
  return (pd_commit){.id = engine_id(object, "commit"), .tree = engine_id(object, "tree"), .seq = engine_number(object, "seq")};
}

void engine_entry(pd_json object, pd_entry *out)
{
  *out = (pd_entry){
    .value_id = engine_id(object, "value_id"),
    .version = engine_number(object, "version"),
    .size = engine_number(object, "size"),
    .seq = engine_number(object, "seq"),
    .created_ms = (int64_t)engine_number(object, "created_ms"),
    .updated_ms = (int64_t)engine_number(object, "updated_ms"),
  };
}

void engine_take_ack(engine_answer *a, pd_ack *out)
{
  *out = (pd_ack){
    .commit = engine_id(a->json, "commit"),
    .tree = engine_id(a->json, "tree"),
    .seq = engine_number(a->json, "seq"),
    .version = engine_number(a->json, "version"),
    .durability = pd_json_is(pd_json_member(a->json, "durability"), "synced") ? PD_SYNCED : PD_BUFFERED,
  };
}

static void take_ack(cli_session *cli, engine_answer *a, pd_ack *out)
{
  snprintf(cli->far_ref, sizeof cli->far_ref, "%s", engine_text(a, a->json, "ref"));
  engine_take_ack(a, out);
}

/* ---- state ---- */

void engine_changes_begin(cli_session *cli, engine_answer *a, pd_error *err)
{
  engine_begin(cli, a, err);
  pd_json_key(&a->w, "changes");
  pd_json_open(&a->w, '[');
}

pd_code engine_changes_end(cli_session *cli, engine_answer *a, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_json_close(&a->w, ']');
  engine_put_note(a, note);
  TRY(engine_ask(cli, a, "store.commit", err));
  take_ack(cli, a, out);
  return PD_OK;
}

void engine_change(engine_answer *a, pd_bytes key, const pd_bytes *value, uint64_t expect)
{
  pd_json_open(&a->w, '{');
  pd_json_put_bytes(&a->w, "key", key);
  if (value)
    engine_put_base64(a, "base64", *value);
  else
    pd_json_put_bool(&a->w, "delete", true);
  if (expect != PD_ANY_VERSION) pd_json_put_number(&a->w, "expected_version", expect);
  pd_json_close(&a->w, '}');
}

pd_code engine_put(cli_session *cli, pd_bytes key, pd_bytes value, uint64_t expect, const pd_note *note, pd_ack *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_put_if(cli->store, key, value, expect, note, out, err);
  engine_changes_begin(cli, &a, err);
  engine_change(&a, key, &value, expect);
  return engine_changes_end(cli, &a, note, out, err);
}

static pd_code delete_here(cli_session *cli, const char *const *keys, size_t count, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_edit *edit = NULL;
  TRY(pd_edit_begin(cli->store, note, &edit, err));
  pd_code code = PD_OK;
  for (size_t i = 0; i < count && code == PD_OK; i++) {
    pd_bytes key = pd_text(keys[i]);
    code = pd_edit_get(edit, key, NULL, NULL, err); /* one that is absent stops it before anything is written */
    if (code == PD_OK) code = pd_edit_delete(edit, key, PD_ANY_VERSION, err);
  }
  if (code == PD_OK) code = pd_edit_commit(edit, out, err);
  if (code != PD_OK) pd_edit_abort(edit);
  return code;
}

pd_code engine_delete(cli_session *cli, const char *const *keys, size_t count, uint64_t expect, const pd_note *note, pd_ack *out,
                      pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote && count == 1) return pd_delete(cli->store, pd_text(keys[0]), expect, note, out, err);
  if (!cli->is_remote) return delete_here(cli, keys, count, note, out, err);
  engine_changes_begin(cli, &a, err);
  for (size_t i = 0; i < count; i++) engine_change(&a, pd_text(keys[i]), NULL, expect);
  return engine_changes_end(cli, &a, note, out, err);
}

static void begin_get(cli_session *cli, engine_answer *a, const char *at, pd_bytes key, pd_error *err)
{
  engine_begin(cli, a, err);
  pd_json_put_bytes(&a->w, "key", key);
  if (at) pd_json_put_text(&a->w, "at", at);
}

pd_code engine_get(cli_session *cli, const char *at, pd_bytes key, uint64_t version, pd_buf *out_value, pd_entry *out_entry, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote && version) return pd_get_version(cli->store, at, key, version, out_value, out_entry, err);
  if (!cli->is_remote) return pd_get(cli->store, at, key, out_value, out_entry, err);
  begin_get(cli, &a, at, key, err);
  if (version) pd_json_put_number(&a.w, "version", version);
  TRY(engine_ask(cli, &a, "store.get", err));
  if (out_entry) engine_entry(a.json, out_entry);
  if (out_entry) out_entry->key = key;
  pd_bytes value = engine_base64(&a, a.json, "base64");
  pd_buf_clear(out_value);
  return pd_buf_append(out_value, value.data, value.size, err);
}

pd_code engine_has(cli_session *cli, const char *at, pd_bytes key, bool *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_has(cli->store, at, key, out, err);
  begin_get(cli, &a, at, key, err);
  pd_json_put_bool(&a.w, "missing_ok", true);
  pd_json_put_bool(&a.w, "value", false);
  TRY(engine_ask(cli, &a, "store.get", err));
  *out = engine_flag(a.json, "found");
  return PD_OK;
}

/* ---- keys in order ---- */

static pd_code scan_here(cli_session *cli, const char *at, const pd_scan *scan, uint64_t most, engine_entry_visit visit, void *ctx,
                         pd_error *err)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code = PD_OK;
  TRY(pd_iter_open(cli->store, at, scan, &iter, err));
  for (uint64_t count = 0; !most || count < most; count++) {
    code = pd_iter_next(iter, &entry, &value, err);
    if (code || !visit(ctx, &entry, value)) break;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* One page. *out_is_over: nothing more is wanted, or there. */
static bool scan_page(engine_answer *a, uint64_t most, uint64_t *count, engine_entry_visit visit, void *ctx)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a->json, "entries")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_entry entry;
    engine_entry(item, &entry);
    entry.key = engine_bytes(a, item, "key");
    if (!visit(ctx, &entry, engine_base64(a, item, "base64")) || ++*count == most) return false;
  }
  return pd_json_member(a->json, "next_after").kind == PD_JSON_STRING;
}

pd_code engine_scan(cli_session *cli, const char *at, const pd_scan *scan, uint64_t most, engine_entry_visit visit, void *ctx,
                    pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  CLEANUP(pd_buf_done) pd_buf after = {0};
  char commit[PD_ID_HEX_SIZE];
  uint64_t count = 0;
  if (!cli->is_remote) return scan_here(cli, at, scan, most, visit, ctx, err);
  TRY(pd_buf_append(&after, scan->after.data, scan->after.size, err));
  for (bool has_more = true; has_more;) {
    uint64_t left = most - count;
    engine_begin(cli, &a, err);
    if (at) pd_json_put_text(&a.w, "at", at);
    if (scan->prefix.size) pd_json_put_bytes(&a.w, "prefix", scan->prefix);
    if (after.size) pd_json_put_bytes(&a.w, "after", pd_buf_bytes(&after));
    pd_json_put_number(&a.w, "limit", most && left < PAGE_MAX ? left : PAGE_MAX);
    pd_json_put_bool(&a.w, "values", !scan->keys_only);
    TRY(engine_ask(cli, &a, "store.list", err));
    pd_id id = engine_id(a.json, "commit");
    at = pd_id_hex(&id, commit); /* all pages are of one moment */
    has_more = scan_page(&a, most, &count, visit, ctx);
    pd_bytes next = engine_bytes(&a, a.json, "next_after");
    pd_buf_clear(&after);
    TRY(pd_buf_append(&after, next.data, next.size, err));
  }
  return PD_OK;
}

/* ---- refs and marks ---- */

pd_code engine_take_names(engine_answer *a, names_list *out, pd_error *err)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a->json, "refs")); pd_json_walk_next(&walk, NULL, &item);) {
    names_item made = {
      .commit = engine_commit(item),
      .updated_ms = (int64_t)engine_number(item, "updated_ms"),
      .is_current = engine_flag(item, "is_current"),
      .can_redo = engine_flag(item, "can_redo"),
    };
    snprintf(made.text, sizeof made.text, "%s", engine_text(a, item, "name"));
    TRY(pd_buf_append(&out->items, &made, sizeof made, err));
  }
  return PD_OK;
}

pd_code engine_names(cli_session *cli, names_list *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return names_load(cli->store, out, err);
  engine_begin(cli, &a, err);
  TRY(engine_ask(cli, &a, "store.refs", err));
  return engine_take_names(&a, out, err);
}

static pd_code move_here(cli_session *cli, const engine_move *m, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_ref ref;
  if (strcmp(m->how, "undo") == 0) return pd_undo(cli->store, m->count, note, out, err);
  if (strcmp(m->how, "redo") == 0) return pd_redo(cli->store, m->count, note, out, err);
  if (strcmp(m->how, "reset") == 0) return pd_reset(cli->store, note->ref ? note->ref : pd_store_ref(cli->store), m->to, note, out, err);
  if (strcmp(m->how, "fork") == 0) return pd_fork(cli->store, m->name, m->to, note, out, err);
  if (strcmp(m->how, "delete") == 0) return pd_ref_delete(cli->store, m->name, note, err);
  TRY(pd_switch(cli->store, m->name, note, err));
  TRY(pd_ref_get(cli->store, m->name, &ref, err));
  *out = (pd_ack){.commit = ref.commit.id};
  return PD_OK;
}

pd_code engine_move_ref(cli_session *cli, const engine_move *m, const pd_note *note, pd_ack *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return move_here(cli, m, note, out, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "how", m->how);
  if (m->name) pd_json_put_text(&a.w, "name", m->name);
  if (m->to) pd_json_put_text(&a.w, "to", m->to);
  if (m->count) pd_json_put_number(&a.w, "count", m->count);
  engine_put_note(&a, note);
  TRY(engine_ask(cli, &a, "store.move", err));
  take_ack(cli, &a, out);
  return PD_OK;
}

pd_code engine_make(cli_session *cli, bool *out_made, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  pd_options existing = {.must_exist = true};
  pd_ack ack;
  if (!cli->is_remote) {
    pd_code code = pd_store_open(cli->uri, cli->agent, &existing, &cli->store, err);
    *out_made = code == PD_NOT_FOUND;
    return *out_made ? cli_open(cli, CLI_CREATE, err) : code;
  }
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "how", "init");
  TRY(engine_ask(cli, &a, "store.move", err));
  take_ack(cli, &a, &ack);
  *out_made = engine_flag(a.json, "created");
  return PD_OK;
}

pd_code engine_mark_list(cli_session *cli, const char *kind, pd_mark_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  bool is_tag = strcmp(kind, "tag") == 0;
  pd_json item;
  if (!cli->is_remote) return is_tag ? pd_tag_list(cli->store, visit, ctx, err) : pd_pin_list(cli->store, visit, ctx, err);
  engine_begin(cli, &a, err);
  TRY(engine_ask(cli, &a, "store.refs", err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a.json, is_tag ? "tags" : "pins")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_mark mark = {
      .name = engine_text(&a, item, "name"),
      .commit = engine_id(item, "commit"),
      .seq = engine_number(item, "seq"),
      .time_ms = (int64_t)engine_number(item, "time_ms"),
      .author = engine_text(&a, item, "author"),
      .reason = engine_text(&a, item, "reason"),
    };
    if (!visit(ctx, &mark)) break;
  }
  return PD_OK;
}

/* A pin has no name but its commit. */
static void begin_mark(cli_session *cli, engine_answer *a, const char *kind, const char *name, const char *at, const pd_note *note,
                       pd_error *err)
{
  engine_begin(cli, a, err);
  pd_json_put_text(&a->w, "kind", kind);
  if (name) pd_json_put_text(&a->w, "name", name);
  if (at) pd_json_put_text(&a->w, "at", at);
  engine_put_note(a, note);
}

pd_code engine_mark_set(cli_session *cli, const char *kind, const char *name, const char *at, bool force, const pd_note *note,
                        pd_commit *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return name ? pd_tag_set(cli->store, name, at, force, note, out, err) : pd_pin_set(cli->store, at, note, out, err);
  begin_mark(cli, &a, kind, name, at, note, err);
  pd_json_put_bool(&a.w, "force", force);
  TRY(engine_ask(cli, &a, "store.mark", err));
  *out = engine_commit(pd_json_member(a.json, "marked"));
  return PD_OK;
}

pd_code engine_mark_delete(cli_session *cli, const char *kind, const char *name, const pd_note *note, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  bool is_tag = strcmp(kind, "tag") == 0;
  if (!cli->is_remote) return is_tag ? pd_tag_delete(cli->store, name, note, err) : pd_pin_delete(cli->store, name, note, err);
  begin_mark(cli, &a, kind, is_tag ? name : NULL, is_tag ? NULL : name, note, err);
  pd_json_put_bool(&a.w, "delete", true);
  return engine_ask(cli, &a, "store.mark", err);
}
