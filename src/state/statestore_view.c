/* statestore_view.c: keys of plugins, pluginId:keyName, and a StateStore as one plugin may see it. */
#include "state/statestore.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define PLUGIN_SIZE_MAX 256

struct pd_stateview {
  pd_statestore *store;
  size_t prefix_size;
  char prefix[PLUGIN_SIZE_MAX + 2]; /* with its colon */
};

static pd_code check_plugin(const char *plugin, pd_error *err)
{
  size_t size = strlen(plugin);
  if (!size) return pd_error_set(err, PD_INVALID, "a plugin's id is empty");
  if (size > PLUGIN_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the plugin's id '%.32s…' is longer than %d bytes", plugin, PLUGIN_SIZE_MAX);
  if (strchr(plugin, ':')) return pd_error_set(err, PD_INVALID, "the plugin's id '%s' has a colon: its keys could be another's", plugin);
  return pd_key_check(pd_text(plugin), err);
}

pd_code pd_statestore_key(const char *plugin, const char *name, char out[PD_KEY_SIZE_MAX + 1], pd_error *err)
{
  char key[PD_KEY_SIZE_MAX + 1];
  TRY(check_plugin(plugin, err));
  if (!*name) return pd_error_set(err, PD_INVALID, "a key of plugin '%s' has no name", plugin);
  if (snprintf(key, sizeof key, "%s:%s", plugin, name) >= (int)sizeof key)
    return pd_error_set(err, PD_LIMIT, "key '%s:%.32s…' is longer than %d bytes", plugin, name, PD_KEY_SIZE_MAX);
  TRY(pd_key_check(pd_text(key), err));
  memcpy(out, key, strlen(key) + 1);
  return PD_OK;
}

pd_code pd_stateview_new(pd_statestore *store, const char *plugin, pd_stateview **out, pd_error *err)
{
  TRY(check_plugin(plugin, err));
  pd_stateview *view = calloc(1, sizeof *view);
  if (!view) return pd_error_memory(err, "a view of a StateStore");
  view->store = store;
  view->prefix_size = (size_t)snprintf(view->prefix, sizeof view->prefix, "%s:", plugin);
  *out = view;
  return PD_OK;
}

void pd_stateview_free(pd_stateview *view)
{
  free(view);
}

/* A key of the plugin as the store knows it. */
typedef struct full_key {
  char text[PD_KEY_SIZE_MAX];
  pd_bytes bytes;
} full_key;

static pd_code make_key(const pd_stateview *view, pd_bytes key, full_key *out, pd_error *err)
{
  if (view->prefix_size + key.size > sizeof out->text)
    return pd_error_set(err, PD_LIMIT, "a key of '%s' has %zu bytes, the limit is %zu", view->prefix, key.size,
                        sizeof out->text - view->prefix_size);
  memcpy(out->text, view->prefix, view->prefix_size);
  if (key.size) memcpy(out->text + view->prefix_size, key.data, key.size);
  out->bytes = (pd_bytes){out->text, view->prefix_size + key.size};
  return PD_OK;
}

pd_code pd_stateview_get(pd_stateview *view, pd_bytes key, pd_buf *out, pd_error *err)
{
  full_key full;
  TRY(make_key(view, key, &full, err));
  return pd_statestore_get(view->store, full.bytes, out, err);
}

pd_code pd_stateview_set(pd_stateview *view, pd_bytes key, pd_bytes value, pd_error *err)
{
  full_key full;
  TRY(pd_key_check(key, err));
  TRY(make_key(view, key, &full, err));
  return pd_statestore_set(view->store, full.bytes, value, err);
}

pd_code pd_stateview_delete(pd_stateview *view, pd_bytes key, bool *out_was_there, pd_error *err)
{
  full_key full;
  TRY(make_key(view, key, &full, err));
  return pd_statestore_delete(view->store, full.bytes, out_was_there, err);
}

bool pd_stateview_has(pd_stateview *view, pd_bytes key)
{
  full_key full;
  return make_key(view, key, &full, NULL) == PD_OK && pd_statestore_has(view->store, full.bytes);
}

typedef struct stripper {
  size_t prefix_size;
  pd_statestore_visit visit;
  void *ctx;
} stripper;

static bool visit_stripped(void *ctx, pd_bytes key, pd_bytes value)
{
  const stripper *s = ctx;
  return s->visit(s->ctx, (pd_bytes){(const char *)key.data + s->prefix_size, key.size - s->prefix_size}, value);
}

pd_code pd_stateview_list(pd_stateview *view, pd_bytes prefix, pd_statestore_visit visit, void *ctx, pd_error *err)
{
  full_key full;
  stripper s = {view->prefix_size, visit, ctx};
  TRY(make_key(view, prefix, &full, err));
  return pd_statestore_list(view->store, full.bytes, visit_stripped, &s, err);
}

pd_code pd_stateview_clear(pd_stateview *view, pd_bytes prefix, uint64_t *out_count, pd_error *err)
{
  full_key full;
  TRY(make_key(view, prefix, &full, err));
  return pd_statestore_clear(view->store, full.bytes, out_count, err);
}
