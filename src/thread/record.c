/* record.c: the small records of a thread: who it is (`thread`) and where it is (`version`). Members are written sorted by name. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "thread/thread.h"

/* ---- checks ---- */

pd_code pd_thread_id_check(const char *id, const char *what, pd_error *err)
{
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!id || !*id) return pd_error_named(err, PD_INVALID, "InvalidId", "the id of the %s is empty", what);
  size_t size = strnlen(id, PD_THREAD_ID_SIZE_MAX + 1), good = strspn(id, plain);
  if (size > PD_THREAD_ID_SIZE_MAX)
    return pd_error_named(err, PD_INVALID, "InvalidId", "%s id '%.32s…' is longer than %d bytes", what, id, PD_THREAD_ID_SIZE_MAX);
  if (good < size)
    return pd_error_named(err, PD_INVALID, "InvalidId",
                          "%s id '%s' is wrong at position %zu: letters, digits, '.', '_' and '-' are allowed", what, id, good + 1);
  if (*id == '.' || strstr(id, ".."))
    return pd_error_named(err, PD_INVALID, "InvalidId", "%s id '%s' begins with a dot or has two in a row", what, id);
  return PD_OK;
}

static bool has_control(pd_bytes text)
{
  const uint8_t *at = text.data;
  for (size_t i = 0; i < text.size; i++)
    if (at[i] < 0x20 || at[i] == 0x7F) return true;
  return false;
}

pd_code pd_message_id_check(pd_bytes id, pd_error *err)
{
  int shown = (int)(id.size < 64 ? id.size : 64);
  const char *wrong = !id.size                            ? "is empty"
                      : id.size > PD_MESSAGE_ID_SIZE_MAX  ? "is longer than 256 bytes"
                      : has_control(id)                   ? "has a control character"
                      : memchr(id.data, '/', id.size)     ? "has a slash"
                      : memmem(id.data, id.size, "..", 2) ? "has two dots in a row"
                      : !pd_utf8_check(id)                ? "is no UTF-8"
                                                          : NULL;
  if (!wrong) return PD_OK;
  bool is_shown = id.size && !has_control(id) && pd_utf8_check(id);
  return pd_error_named(err, PD_INVALID, "InvalidId", "the id of a message %s%.*s%s%s", is_shown ? "('" : "", is_shown ? shown : 0,
                        (const char *)id.data, is_shown ? "') " : "", wrong);
}

pd_code pd_thread_check_text(const char *text, size_t size_max, const char *what, pd_error *err)
{
  size_t size = strnlen(text, size_max + 1);
  if (!size) return pd_error_set(err, PD_INVALID, "the %s is empty", what);
  if (size > size_max) return pd_error_set(err, PD_LIMIT, "the %s '%.32s…' is longer than %zu bytes", what, text, size_max);
  if (has_control(pd_text(text)) || !pd_utf8_check(pd_text(text)))
    return pd_error_set(err, PD_INVALID, "the %s has control characters or is no UTF-8", what);
  return PD_OK;
}

/* ---- texts in one buffer ---- */

/* Where a text begins in the buffer; the pointers are made when it has stopped growing. */
typedef struct text_place {
  const char **slot;
  size_t at;
  bool is_there;
} text_place;

static pd_code take_text(pd_buf *texts, pd_json value, const char *name, text_place *place, pd_error *err)
{
  if (value.kind == PD_JSON_NONE) return PD_OK;
  place->at = texts->size;
  place->is_there = true;
  pd_error why;
  pd_code code = pd_json_decode(value, texts, &why);
  if (code == PD_NO_MEMORY && err) *err = why;
  if (code == PD_NO_MEMORY) return code;
  if (!code && memchr(texts->data + place->at, 0, texts->size - place->at)) code = PD_INVALID;
  if (code) return pd_error_set(err, PD_INVALID, "'%s' is no text", name);
  return pd_buf_byte(texts, 0, err);
}

/* ---- thread ---- */

void pd_identity_done(pd_identity *identity)
{
  pd_buf_done(&identity->texts);
}

static void put_optional(pd_json_writer *w, const char *name, const char *text)
{
  if (*text) pd_json_put_text(w, name, text);
}

pd_code pd_identity_write(const pd_identity *identity, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "created_at", (uint64_t)identity->created_ms);
  put_optional(&w, "forked_from", identity->forked_from);
  if (*identity->forked_from) pd_json_put_number(&w, "forked_version", identity->forked_version);
  pd_json_put_number(&w, "forks", identity->forks);
  pd_json_put_text(&w, "id", identity->id);
  if (identity->meta.size) {
    pd_json_key(&w, "meta");
    pd_json_raw(&w, identity->meta);
  }
  put_optional(&w, "owner", identity->owner);
  put_optional(&w, "parent", identity->parent);
  pd_json_put_number(&w, "since", identity->since);
  pd_json_close(&w, '}');
  return w.code;
}

enum { ID_CREATED, ID_FROM, ID_FROM_VERSION, ID_FORKS, ID_ID, ID_META, ID_OWNER, ID_PARENT, ID_SINCE, ID_COUNT };

static pd_code take_texts(pd_identity *made, const pd_json_field *f, pd_error *err)
{
  text_place places[] = {{.slot = &made->id}, {.slot = &made->owner}, {.slot = &made->parent}, {.slot = &made->forked_from}};
  static const int fields[] = {ID_ID, ID_OWNER, ID_PARENT, ID_FROM};
  size_t meta_at;
  for (size_t i = 0; i < COUNT_OF(places); i++) TRY(take_text(&made->texts, f[fields[i]].value, f[fields[i]].name, &places[i], err));
  meta_at = made->texts.size;
  if (f[ID_META].value.kind != PD_JSON_NONE) {
    if (f[ID_META].value.kind != PD_JSON_OBJECT) return pd_error_set(err, PD_INVALID, "'meta' is no object");
    TRY(pd_json_unique(f[ID_META].value, err));
    TRY(pd_json_canonical(f[ID_META].value, &made->texts, err));
  }
  for (size_t i = 0; i < COUNT_OF(places); i++) *places[i].slot = places[i].is_there ? (const char *)made->texts.data + places[i].at : "";
  made->meta = (pd_bytes){made->texts.data + meta_at, made->texts.size - meta_at};
  return PD_OK;
}

static pd_code check_identity(const pd_identity *made, bool has_id, pd_error *err)
{
  if (!has_id) return pd_error_set(err, PD_INVALID, "'id' is missing");
  TRY(pd_thread_id_check(made->id, "thread", err));
  if (*made->parent) TRY(pd_thread_id_check(made->parent, "parent thread", err));
  if (*made->forked_from) TRY(pd_thread_id_check(made->forked_from, "forked thread", err));
  if (*made->owner) TRY(pd_thread_check_text(made->owner, PD_THREAD_OWNER_SIZE_MAX, "owner", err));
  if (made->meta.size > PD_THREAD_META_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "'meta' has %zu bytes, the limit is %d", made->meta.size, PD_THREAD_META_SIZE_MAX);
  return PD_OK;
}

static pd_code parse_identity(pd_json value, pd_identity *made, pd_error *err)
{
  pd_json_field f[ID_COUNT] = {{"created_at", {{0}, 0}}, {"forked_from", {{0}, 0}}, {"forked_version", {{0}, 0}},
                               {"forks", {{0}, 0}},      {"id", {{0}, 0}},          {"meta", {{0}, 0}},
                               {"owner", {{0}, 0}},      {"parent", {{0}, 0}},      {"since", {{0}, 0}}};
  TRY(pd_json_fields(value, f, ID_COUNT, err));
  TRY(take_texts(made, f, err));
  if (!pd_json_i64(f[ID_CREATED].value, &made->created_ms) || made->created_ms < 0)
    return pd_error_set(err, PD_INVALID, "'created_at' is no time");
  bool has_from = f[ID_FROM].value.kind != PD_JSON_NONE;
  if (has_from != (f[ID_FROM_VERSION].value.kind != PD_JSON_NONE) ||
      (has_from && !pd_json_u64(f[ID_FROM_VERSION].value, &made->forked_version)))
    return pd_error_set(err, PD_INVALID, "'forked_version' is no version");
  if (!pd_json_u64(f[ID_FORKS].value, &made->forks)) return pd_error_set(err, PD_INVALID, "'forks' is no number");
  if (!pd_json_u64(f[ID_SINCE].value, &made->since)) return pd_error_set(err, PD_INVALID, "'since' is no version");
  return check_identity(made, f[ID_ID].value.kind != PD_JSON_NONE, err);
}

pd_code pd_identity_parse(pd_json value, pd_identity *out, pd_error *err)
{
  CLEANUP(pd_identity_done) pd_identity made = {0};
  TRY(parse_identity(value, &made, err));
  *out = made;
  made.texts = (pd_buf){0};
  return PD_OK;
}

/* ---- version ---- */

pd_code pd_thread_head_write(const pd_thread_head *head, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  put_optional(&w, "active_run", head->active_run);
  pd_json_put_number(&w, "messages", head->messages);
  pd_json_put_number(&w, "runs", head->runs);
  pd_json_put_number(&w, "time", (uint64_t)head->time_ms);
  pd_json_put_number(&w, "version", head->version);
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_thread_head_parse(pd_bytes text, pd_thread_head *out, pd_error *err)
{
  enum { ACTIVE, MESSAGES, RUNS, TIME, VERSION, COUNT };
  pd_json_field f[COUNT] = {
    {"active_run", {{0}, 0}}, {"messages", {{0}, 0}}, {"runs", {{0}, 0}}, {"time", {{0}, 0}}, {"version", {{0}, 0}}};
  CLEANUP(pd_buf_done) pd_buf run = {.size_max = PD_THREAD_ID_SIZE_MAX};
  pd_thread_head head = {0};
  pd_json json;
  TRY(pd_json_parse(text, &json, err));
  TRY(pd_json_fields(json, f, COUNT, err));
  bool is_good = pd_json_u64(f[MESSAGES].value, &head.messages) && pd_json_u64(f[RUNS].value, &head.runs) &&
                 pd_json_i64(f[TIME].value, &head.time_ms) && pd_json_u64(f[VERSION].value, &head.version);
  if (!is_good) return pd_error_set(err, PD_INVALID, "a number is missing");
  if (f[ACTIVE].value.kind != PD_JSON_NONE) TRY(pd_json_decode(f[ACTIVE].value, &run, err));
  if (run.size) memcpy(head.active_run, run.data, run.size);
  *out = head;
  return PD_OK;
}
