/* policy_load.c: reading policy.toml. Invariants R1 to R4 are in policy.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/toml.h"
#include "state/config.h"
#include "state/policy.h"

#include <stdio.h>
#include <stdlib.h>

#define TTL_MS_MAX ((uint64_t)3650 * 86400000)

typedef struct rule_reader {
  const char *path;
  pd_rules *rules;
  pd_rule *rule; /* that is being read; NULL: none yet */
  int64_t count; /* rule_count; -1: not given */
  size_t count_line;
} rule_reader;

static pd_code bad(const rule_reader *r, size_t line, pd_error *err, const char *what)
{
  return pd_error_set(err, PD_INVALID, "%s:%zu: %s", r->path, line, what);
}

static pd_code take_text(const rule_reader *r, const pd_toml_entry *entry, char *out, size_t size, pd_error *err)
{
  char what[120];
  if (entry->value.kind == PD_TOML_STRING && *entry->value.text && strlen(entry->value.text) < size) {
    snprintf(out, size, "%s", entry->value.text);
    return PD_OK;
  }
  snprintf(what, sizeof what, "'%s' must be a string of 1 to %zu bytes", entry->key, size - 1);
  return bad(r, entry->line, err, what);
}

static pd_code take_permission(const rule_reader *r, const pd_toml_entry *entry, pd_permission *out, pd_error *err)
{
  for (int i = PD_PERMIT_AUTONOMOUS; i <= PD_PERMIT_BLOCKED && entry->value.kind == PD_TOML_STRING; i++)
    if (strcmp(entry->value.text, pd_permission_name((pd_permission)i)) == 0) {
      *out = (pd_permission)i;
      return PD_OK;
    }
  return bad(r, entry->line, err, "'permission' must be one of: notify, approval, operator, blocked");
}

/* As the settings of perdure.toml are written: "10 min", "1h", 0: never. */
static pd_code take_ttl(const rule_reader *r, const pd_toml_entry *entry, pd_rule *rule, pd_error *err)
{
  static const pd_config_item item = {.name = "ttl", .unit = PD_UNIT_MS, .about = "0: never"};
  const char *text = entry->value.kind == PD_TOML_STRING ? entry->value.text : "";
  if (!pd_config_parse(&item, text, &rule->ttl_ms) || rule->ttl_ms > TTL_MS_MAX)
    return bad(r, entry->line, err, "'ttl' must be a time such as \"10 min\" or \"1 h\" (ms, s, min, h, d); \"0 s\": never");
  rule->has_ttl = true;
  return PD_OK;
}

static pd_code take_entry(rule_reader *r, const pd_toml_entry *entry, pd_error *err)
{
  pd_rule *rule = r->rule;
  char prefix[PD_KEY_SIZE_MAX + 1];
  if (strcmp(entry->key, "capability") == 0) return take_text(r, entry, rule->capability, sizeof rule->capability, err);
  if (strcmp(entry->key, "agent") == 0) return take_text(r, entry, rule->agent, sizeof rule->agent, err);
  if (strcmp(entry->key, "reason") == 0) return take_text(r, entry, rule->reason, sizeof rule->reason, err);
  if (strcmp(entry->key, "permission") == 0) return take_permission(r, entry, &rule->permission, err);
  if (strcmp(entry->key, "ttl") == 0) return take_ttl(r, entry, rule, err);
  if (strcmp(entry->key, "prefix") == 0) {
    TRY(take_text(r, entry, prefix, sizeof prefix, err));
    return pd_buf_append(&rule->prefix, prefix, strlen(prefix), err);
  }
  char what[PD_TOML_NAME_MAX + 120];
  snprintf(what, sizeof what, "there is no '%s' in a rule; there are: capability, agent, prefix, permission, reason, ttl", entry->key);
  return bad(r, entry->line, err, what);
}

static pd_code begin_rule(rule_reader *r, const pd_toml_table *table, pd_error *err)
{
  if (strcmp(table->name, "rule") != 0 || !table->is_list) return bad(r, table->line, err, "a policy has only [[rule]] tables");
  if (r->rules->count == PD_POLICY_RULES_MAX) return bad(r, table->line, err, "more than 1000 rules");
  TRY(pd_array_grow(&r->rules->items, r->rules->count, &r->rules->capacity, sizeof r->rules->items[0], "a policy", err));
  r->rule = &r->rules->items[r->rules->count++];
  *r->rule = (pd_rule){.line = (unsigned)table->line};
  return PD_OK;
}

static pd_code end_rule(const rule_reader *r, pd_error *err)
{
  pd_error why = {0};
  if (!*r->rule->capability) return bad(r, r->rule->line, err, "this rule names no 'capability'; \"*\" stands for all");
  if (r->rule->permission == PD_PERMIT_AUTONOMOUS)
    return bad(r, r->rule->line, err, "this rule needs a 'permission': notify, approval, operator or blocked; a policy may only tighten");
  if (pd_rule_check(r->rule, &why) == PD_OK) return PD_OK;
  return why.code == PD_NO_MEMORY ? pd_error_memory(err, "a policy") : bad(r, r->rule->line, err, why.message);
}

/* What stands before the first rule. */
static pd_code take_head(rule_reader *r, const pd_toml_entry *entry, pd_error *err)
{
  const pd_toml_value *value = &entry->value;
  if (strcmp(entry->key, "no_rules") == 0) {
    if (value->kind != PD_TOML_BOOL || !value->is_true) return bad(r, entry->line, err, "'no_rules' must be true, or not be there");
    r->rules->is_none = true;
    return PD_OK;
  }
  if (strcmp(entry->key, "rule_count") == 0) {
    if (value->kind != PD_TOML_INTEGER || value->integer < 1) return bad(r, entry->line, err, "'rule_count' must be a number from 1");
    r->count = value->integer;
    r->count_line = entry->line;
    return PD_OK;
  }
  return bad(r, entry->line, err, "a policy has only [[rule]] tables, and before them rule_count or no_rules");
}

/* R5 */
static pd_code check_whole(const rule_reader *r, pd_error *err)
{
  char what[120];
  if (r->rules->is_none && (r->rules->count || r->count >= 0)) return bad(r, 1, err, "'no_rules' stands beside rules: which is meant?");
  if (r->count < 0 || (uint64_t)r->count == r->rules->count) return PD_OK;
  snprintf(what, sizeof what, "'rule_count' is %lld, and there are %zu rules: is the file whole?", (long long)r->count, r->rules->count);
  return bad(r, r->count_line, err, what);
}

static pd_code read_rules(rule_reader *r, const pd_toml *toml, pd_error *err)
{
  size_t at = 0;
  for (size_t t = 0; t < toml->table_count; t++) {
    if (t) TRY(begin_rule(r, &toml->tables[t], err));
    for (; at < toml->entry_count && toml->entries[at].table == t; at++) {
      TRY(t ? take_entry(r, &toml->entries[at], err) : take_head(r, &toml->entries[at], err));
    }
    if (t) TRY(end_rule(r, err));
  }
  return check_whole(r, err);
}

pd_code pd_rules_load(const char *path, pd_rules *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_toml toml = {0};
  rule_reader r = {.path = path, .rules = out, .count = -1};
  pd_code code = pd_file_read(path, PD_TOML_SIZE_MAX, &text, err); /* a file, which a pipe is not: all calls would wait for its writer */
  out->is_absent = code == PD_NOT_FOUND;
  if (code == PD_OK) code = pd_toml_parse(pd_buf_bytes(&text), path, &toml, err);
  if (code == PD_OK) code = read_rules(&r, &toml, err);
  pd_toml_done(&toml);
  return out->is_absent ? PD_OK : code;
}
