/* config_text.c: settings that are no numbers: addresses, files, lists of names. A list is kept as one text with commas. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/config.h"
#include "state/folder_roots.h"

#include <stdio.h>
#include <stdlib.h>

static char **place_of(const void *base, const pd_config_item *item)
{
  return (char **)((char *)(uintptr_t)base + item->offset);
}

bool pd_config_is_text(const pd_config_item *item)
{
  return item->unit >= PD_UNIT_TEXT;
}

const char *pd_config_text_at(const void *base, const pd_config_item *item)
{
  const char *text = *place_of(base, item);
  return text ? text : "";
}

void pd_config_forget_texts(pd_config *config)
{
  for (size_t i = 0; i < pd_config_item_count; i++) {
    if (!pd_config_is_text(&pd_config_items[i])) continue;
    char **place = place_of(config, &pd_config_items[i]);
    free(*place);
    *place = NULL;
  }
}

/* ---- taking ---- */

static pd_code check_choice(const pd_config_item *item, const char *text, const char *where, pd_error *err)
{
  size_t size = strlen(text), all = strcspn(item->about, ";: ");
  if (item->unit != PD_UNIT_CHOICE || !size) return PD_OK;
  for (const char *at = item->about; at < item->about + all; at += strcspn(at, "|;: ") + 1)
    if (strcspn(at, "|;: ") == size && strncmp(at, text, size) == 0) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%s: '%s' is '%.60s'; it must be one of %.*s", where, item->name, text, (int)all, item->about);
}

static pd_code put(void *base, const pd_config_item *item, const char *text, const char *where, pd_error *err)
{
  char **place = place_of(base, item), *copy = NULL;
  if (strlen(text) > PD_CONFIG_WORDS_MAX)
    return pd_error_set(err, PD_INVALID, "%s: '%s' is longer than %zu bytes", where, item->name, PD_CONFIG_WORDS_MAX);
  for (const char *at = text; *at; at++)
    if ((unsigned char)*at < ' ' || *at == 0x7f)
      return pd_error_set(err, PD_INVALID, "%s: '%s' has a control character", where, item->name);
  TRY(check_choice(item, text, where, err));
  if (*text && !(copy = strdup(text))) return pd_error_memory(err, "the configuration");
  free(*place);
  *place = copy;
  return PD_OK;
}

/* An absolute path without `..`. */
static pd_code check_folder(pd_bytes text, const pd_config_item *item, const char *where, pd_error *err)
{
  char path[PD_CONFIG_WORDS_MAX + 1], clean[PATH_MAX];
  snprintf(path, sizeof path, "%.*s", (int)text.size, (const char *)text.data);
  if (text.size < sizeof path && pd_path_clean(path, clean)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%s: '%s': '%.300s' is not an absolute path without '..'", where, item->name, path);
}

/* One item of a list, without blanks around it. */
static pd_code add_item(pd_buf *list, size_t *count, pd_bytes text, const pd_config_item *item, const char *where, pd_error *err)
{
  const char *at = text.data, *end = at + text.size;
  while (at < end && *at == ' ') at++;
  while (end > at && end[-1] == ' ') end--;
  bool is_folder = item->unit == PD_UNIT_FOLDERS; /* whose name may have blanks in it */
  if (at == end || memchr(at, ',', (size_t)(end - at)) || (!is_folder && memchr(at, ' ', (size_t)(end - at))))
    return pd_error_set(err, PD_INVALID, "%s: '%s': '%.*s' is no item of such a list", where, item->name, (int)(end - at), at);
  if (is_folder) TRY(check_folder((pd_bytes){at, (size_t)(end - at)}, item, where, err));
  if (++*count > item->max)
    return pd_error_set(err, PD_INVALID, "%s: '%s' has more than %llu items", where, item->name, (unsigned long long)item->max);
  if (list->size) TRY(pd_buf_byte(list, ',', err));
  return pd_buf_append(list, at, (size_t)(end - at), err);
}

static pd_code put_list(void *base, const pd_config_item *item, const char *text, const char *where, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  size_t count = 0;
  while (*text) {
    size_t size = strcspn(text, ",");
    TRY(add_item(&list, &count, (pd_bytes){text, size}, item, where, err));
    text += size + (text[size] == ',');
  }
  TRY(pd_buf_byte(&list, 0, err));
  return put(base, item, (const char *)list.data, where, err);
}

pd_code pd_config_set_words(void *base, const pd_config_item *item, const char *text, const char *where, pd_error *err)
{
  return item->unit >= PD_UNIT_LIST ? put_list(base, item, text, where, err) : put(base, item, text, where, err);
}

static pd_code take_array(void *base, const pd_config_item *item, const pd_toml_value *value, const char *where, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  size_t count = 0;
  for (size_t i = 0; i < value->item_count; i++) {
    const pd_toml_value *one = &value->items[i];
    if (one->kind != PD_TOML_STRING)
      return pd_error_set(err, PD_INVALID, "%s: '%s' has %s in it; it must be %s", where, item->name, pd_toml_kind_name(one->kind),
                          pd_config_form(item->unit));
    TRY(add_item(&list, &count, pd_text(one->text), item, where, err));
  }
  TRY(pd_buf_byte(&list, 0, err));
  return put(base, item, (const char *)list.data, where, err);
}

pd_code pd_config_take_words(void *base, const pd_config_item *item, const pd_toml_value *value, const char *where, pd_error *err)
{
  if (value->kind == PD_TOML_STRING) return pd_config_set_words(base, item, value->text, where, err);
  if (value->kind == PD_TOML_ARRAY && item->unit >= PD_UNIT_LIST) return take_array(base, item, value, where, err);
  return pd_error_set(err, PD_INVALID, "%s: '%s' is %s; it must be %s", where, item->name, pd_toml_kind_name(value->kind),
                      pd_config_form(item->unit));
}

pd_code pd_config_anchor(void *base, const pd_config_item *item, const char *file, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf path = {0};
  const char *text = pd_config_text_at(base, item), *slash = strrchr(file, '/');
  if (!*text || *text == '/' || !slash) return PD_OK;
  TRY(pd_buf_printf(&path, err, "%.*s/%s%c", (int)(slash - file), file, text, 0));
  return put(base, item, (const char *)path.data, file, err);
}
