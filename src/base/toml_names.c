/*
 * toml_names.c: what can only be seen over all lines: names that are there twice, and names that are a value and a table.
 *
 * Every name becomes a path (`session.quota`; `rule[2].agents` in arrays of tables, so that each has its own), and paths are sorted.
 */
#include "base/base.h"
#include "base/toml_parse.h"

#include <stdio.h>
#include <stdlib.h>

#define PATH_SIZE (2 * PD_TOML_NAME_MAX + 32)

typedef struct path {
  char *text;
  size_t line;
  bool is_closed; /* a value, or an array of tables: nothing may be inside it by a dot */
} path;

typedef struct path_list {
  path *items;
  size_t count;
} path_list;

static void path_list_done(path_list *list)
{
  free(list->items);
}

static pd_code add(toml_parser *p, path_list *list, const pd_toml_table *table, const char *key, path made)
{
  char number[32] = "";
  bool is_element = table->is_list && (key || !made.is_closed);
  if (is_element) snprintf(number, sizeof number, "[%zu]", table->index);
  size_t size = strlen(table->name) + strlen(number) + (key ? strlen(key) : 0) + 2;
  made.text = pd_toml_take(p, size);
  if (!made.text) return pd_toml_no_memory(p);
  snprintf(made.text, size, "%s%s%s%s", table->name, number, key && *table->name ? "." : "", key ? key : "");
  list->items[list->count++] = made;
  return PD_OK;
}

static pd_code collect(toml_parser *p, path_list *list)
{
  const pd_toml *doc = p->doc;
  list->items = calloc(doc->table_count * 2 + doc->entry_count, sizeof(path));
  if (!list->items) return pd_toml_no_memory(p);
  for (size_t i = 1; i < doc->table_count; i++) {
    const pd_toml_table *table = &doc->tables[i];
    TRY(add(p, list, table, NULL, (path){.line = table->line}));
    if (table->is_list && table->index == 0) TRY(add(p, list, table, NULL, (path){.line = table->line, .is_closed = true}));
  }
  for (size_t i = 0; i < doc->entry_count; i++) {
    const pd_toml_entry *entry = &doc->entries[i];
    TRY(add(p, list, &doc->tables[entry->table], entry->key, (path){.line = entry->line, .is_closed = true}));
  }
  return PD_OK;
}

static int compare(const void *a, const void *b)
{
  const path *x = a, *y = b;
  int order = strcmp(x->text, y->text);
  return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static int compare_text(const void *text, const void *item)
{
  return strcmp(text, ((const path *)item)->text);
}

/* Does a closed path lead to this one? */
static pd_code check_above(toml_parser *p, const path_list *list, const path *item)
{
  char text[PATH_SIZE];
  for (const char *dot = strchr(item->text, '.'); dot; dot = strchr(dot + 1, '.')) {
    snprintf(text, sizeof text, "%.*s", (int)(dot - item->text), item->text);
    const path *above = bsearch(text, list->items, list->count, sizeof(path), compare_text);
    if (above && above->is_closed)
      return pd_toml_bad(p, item->line, "'%s' cannot be inside '%s', which line %zu makes a value or an array of tables", item->text,
                         above->text, above->line);
  }
  return PD_OK;
}

pd_code pd_toml_check_names(toml_parser *p)
{
  CLEANUP(path_list_done) path_list list = {0};
  TRY(collect(p, &list));
  if (list.count) qsort(list.items, list.count, sizeof(path), compare);
  for (size_t i = 1; i < list.count; i++)
    if (strcmp(list.items[i].text, list.items[i - 1].text) == 0)
      return pd_toml_bad(p, list.items[i].line, "'%s' is there already, on line %zu", list.items[i].text, list.items[i - 1].line);
  for (size_t i = 0; i < list.count; i++) TRY(check_above(p, &list, &list.items[i]));
  return PD_OK;
}
