/* record.c: the small records of a thread: who it is (`thread`) and where it is (`version`). Members are written sorted by name. */
#include "base/base.h"
#include "base/bind.h"
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

#define NO_VERSION UINT64_MAX

typedef struct written {
  pd_identity id;
  pd_json meta;
} written;

static const pd_bind identity_members[] = {
  {"created_at", PD_BIND_MS, PD_BIND_AT(written, id.created_ms)},
  {"forked_from", PD_BIND_KEPT, PD_BIND_AT(written, id.forked_from), .is_optional = true},
  {"forked_version", PD_BIND_NUMBER, PD_BIND_AT(written, id.forked_version), .is_optional = true},
  {"forks", PD_BIND_NUMBER, PD_BIND_AT(written, id.forks)},
  {"id", PD_BIND_KEPT, PD_BIND_AT(written, id.id)},
  {"meta", PD_BIND_JSON, PD_BIND_AT(written, meta), .is_optional = true},
  {"owner", PD_BIND_KEPT, PD_BIND_AT(written, id.owner), .is_optional = true},
  {"parent", PD_BIND_KEPT, PD_BIND_AT(written, id.parent), .is_optional = true},
  {"since", PD_BIND_NUMBER, PD_BIND_AT(written, id.since)},
};

static pd_code keep_meta(pd_json meta, pd_buf *out, pd_error *err)
{
  if (meta.kind == PD_JSON_NONE) return PD_OK;
  if (meta.kind != PD_JSON_OBJECT) return pd_error_set(err, PD_INVALID, "'meta' is not an object");
  TRY(pd_json_unique(meta, err));
  return pd_json_canonical(meta, out, err);
}

static pd_code check_identity(const pd_identity *made, pd_error *err)
{
  if ((*made->forked_from != 0) != (made->forked_version != NO_VERSION))
    return pd_error_set(err, PD_INVALID, "one of 'forked_from' and 'forked_version' is missing");
  TRY(pd_thread_id_check(made->id, "thread", err));
  if (*made->parent) TRY(pd_thread_id_check(made->parent, "parent thread", err));
  if (*made->forked_from) TRY(pd_thread_id_check(made->forked_from, "forked thread", err));
  if (*made->owner) TRY(pd_thread_check_text(made->owner, PD_THREAD_OWNER_SIZE_MAX, "owner", err));
  if (made->meta.size > PD_THREAD_META_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "'meta' has %zu bytes, the limit is %d", made->meta.size, PD_THREAD_META_SIZE_MAX);
  return PD_OK;
}

pd_code pd_identity_parse(pd_json value, pd_identity *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  written w = {.id = {.owner = "", .parent = "", .forked_from = "", .forked_version = NO_VERSION}};
  TRY(keep_meta(pd_json_member(value, "meta"), &texts, err)); /* first: its canonical form may be longer, and texts would move */
  size_t meta_size = texts.size;
  TRY(pd_bind_keep(value, identity_members, COUNT_OF(identity_members), PD_BIND_STRICT, &w, &texts, err));
  w.id.meta = (pd_bytes){texts.data, meta_size};
  TRY(check_identity(&w.id, err));
  if (w.id.forked_version == NO_VERSION) w.id.forked_version = 0;
  *out = w.id;
  out->texts = texts;
  texts = (pd_buf){0};
  return PD_OK;
}

/* ---- version ---- */

static const pd_bind head_members[] = {
  {"active_run", PD_BIND_TEXT, PD_BIND_AT(pd_thread_head, active_run), .is_optional = true},
  {"messages", PD_BIND_NUMBER, PD_BIND_AT(pd_thread_head, messages)},
  {"runs", PD_BIND_NUMBER, PD_BIND_AT(pd_thread_head, runs)},
  {"time", PD_BIND_MS, PD_BIND_AT(pd_thread_head, time_ms)},
  {"version", PD_BIND_NUMBER, PD_BIND_AT(pd_thread_head, version)},
};

pd_code pd_thread_head_write(const pd_thread_head *head, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_bind_object(&w, head_members, COUNT_OF(head_members), head);
  return w.code;
}

pd_code pd_thread_head_parse(pd_bytes text, pd_thread_head *out, pd_error *err)
{
  pd_thread_head head = {0};
  TRY(pd_bind_parse(text, head_members, COUNT_OF(head_members), PD_BIND_STRICT, &head, err));
  *out = head;
  return PD_OK;
}
