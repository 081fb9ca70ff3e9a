/* settings.c: the store's settings: entries "setting/NAME" of the hidden ref (meta.c). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/store.h"

#define KIND "setting"
#define SETTING_NAME_SIZE_MAX 1000

static pd_code check_name(const char *name, pd_error *err)
{
  if (!name || !*name) return pd_error_set(err, PD_INVALID, "the name of a setting is empty");
  size_t size = strnlen(name, SETTING_NAME_SIZE_MAX + 1);
  if (size > SETTING_NAME_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the name '%.32s…' of a setting is longer than %d bytes", name, SETTING_NAME_SIZE_MAX);
  return pd_key_check((pd_bytes){name, size}, err);
}

/* Settings that are read by the engine are checked when they are set, not when they are needed. */
static pd_code check_known(const char *name, pd_bytes value, pd_error *err)
{
  if (strncmp(name, PD_SETTING_GC, strlen(PD_SETTING_GC)) == 0) return pd_auto_gc_check(name, value, err);
  if (strncmp(name, PD_SETTING_MERGE_RULE, strlen(PD_SETTING_MERGE_RULE)) != 0) return PD_OK;
  char text[32];
  size_t size = value.size < sizeof text ? value.size : sizeof text - 1;
  if (size) memcpy(text, value.data, size);
  text[size] = 0;
  pd_merge_rule rule;
  return pd_merge_rule_parse(text, &rule, err);
}

static void tell_gc(pd_store *s, const char *name)
{
  if (strncmp(name, PD_SETTING_GC, strlen(PD_SETTING_GC)) != 0) return;
  pd_store_lock(s);
  pd_auto_gc_start(s);
  pd_store_unlock(s);
}

pd_code pd_setting_get(pd_store *store, const char *name, pd_buf *out, pd_error *err)
{
  TRY(check_name(name, err));
  return pd_meta_get(store, KIND, name, out, NULL, err);
}

pd_code pd_setting_set(pd_store *store, const char *name, pd_bytes value, const pd_note *note, pd_error *err)
{
  TRY(check_name(name, err));
  if (value.size > PD_SETTING_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "setting '%.200s' has %zu bytes, the limit is %d", name, value.size, PD_SETTING_SIZE_MAX);
  if (!pd_utf8_check(value)) return pd_error_set(err, PD_INVALID, "setting '%.200s': the value is not valid UTF-8", name);
  TRY(check_known(name, value, err));
  TRY(pd_meta_put(store, KIND, name, value, PD_ANY_VERSION, note, NULL, err));
  tell_gc(store, name);
  return PD_OK;
}

pd_code pd_setting_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err)
{
  TRY(check_name(name, err));
  TRY(pd_meta_delete(store, KIND, name, note, err));
  tell_gc(store, name);
  return PD_OK;
}

typedef struct listing {
  const char *prefix;
  size_t prefix_size;
  bool (*visit)(void *ctx, const char *name, pd_bytes value);
  void *ctx;
} listing;

static bool visit_setting(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  const listing *l = ctx;
  (void)entry;
  return strncmp(name, l->prefix, l->prefix_size) != 0 || l->visit(l->ctx, name, value);
}

pd_code pd_setting_list(pd_store *store, const char *prefix, bool (*visit)(void *ctx, const char *name, pd_bytes value), void *ctx,
                        pd_error *err)
{
  listing l = {prefix ? prefix : "", prefix ? strlen(prefix) : 0, visit, ctx};
  return pd_meta_list(store, KIND, visit_setting, &l, err);
}
