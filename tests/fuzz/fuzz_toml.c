/* fuzz_toml.c: the TOML reader. It refuses with a line; what it accepts has texts that are UTF-8 and names that are whole. */
#include "base/base.h"
#include "base/buf.h"
#include "base/toml.h"
#include "fuzz/fuzz.h"

static void look_at(const pd_toml_value *value)
{
  FUZZ_REQUIRE(value->kind >= PD_TOML_STRING && value->kind <= PD_TOML_ARRAY && value->line > 0);
  if (value->kind == PD_TOML_STRING) FUZZ_REQUIRE(pd_utf8_check(pd_text(value->text)));
  for (size_t i = 0; i < value->item_count; i++) {
    FUZZ_REQUIRE(value->items[i].kind != PD_TOML_ARRAY);
    look_at(&value->items[i]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  CLEANUP(pd_toml_done) pd_toml doc;
  pd_error err = {0};
  pd_code code = pd_toml_parse((pd_bytes){data, size}, "x", &doc, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_LIMIT || (code == PD_INVALID && strncmp(err.message, "x:", 2) == 0));
  if (code) return 0;
  for (size_t i = 0; i < doc.entry_count; i++) {
    const pd_toml_entry *entry = &doc.entries[i];
    FUZZ_REQUIRE(entry->table < doc.table_count && *entry->key && strlen(entry->name) >= strlen(entry->key));
    FUZZ_REQUIRE(i == 0 || entry->line > doc.entries[i - 1].line);
    look_at(&entry->value);
  }
  return 0;
}
