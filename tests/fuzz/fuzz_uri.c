/* fuzz_uri.c: what users type: URIs, agents, refs, keys, ids. Nothing is opened. */
#include "base/buf.h"
#include "base/uri.h"
#include "fuzz/fuzz.h"

#include <perdure/backend.h>

static void check_names(const char *text, pd_bytes bytes)
{
  bool is_agent = pd_agent_check(text, NULL) == PD_OK, is_ref = pd_ref_check(text, NULL) == PD_OK;
  pd_id id;
  char hex[PD_ID_HEX_SIZE];
  if (is_agent) FUZZ_REQUIRE(is_ref && bytes.size && strlen(text) <= PD_NAME_SIZE_MAX);
  if (is_ref) FUZZ_REQUIRE(strlen(text) <= PD_REF_SIZE_MAX && !strpbrk(text, "~@# \n"));
  if (pd_key_check(bytes, NULL) == PD_OK)
    FUZZ_REQUIRE(bytes.size && bytes.size <= PD_KEY_SIZE_MAX && pd_utf8_check(bytes) && !memchr(bytes.data, 0, bytes.size));
  if (pd_id_parse(text, &id)) FUZZ_REQUIRE(strlen(text) == 64 && strcasecmp(pd_id_hex(&id, hex), text) == 0);
}

/* What is escaped comes back, whatever it is; what is unescaped was no longer than its text. */
static void check_escapes(pd_bytes bytes)
{
  pd_buf escaped = {0}, back = {0}, plain = {0};
  if (pd_uri_escape(bytes, "/:@", &escaped, NULL) || pd_uri_unescape(pd_buf_bytes(&escaped), &back, NULL)) abort();
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&back), bytes));
  pd_code code = pd_uri_unescape(bytes, &plain, NULL);
  FUZZ_REQUIRE(code == PD_OK ? plain.size <= bytes.size : code == PD_INVALID && memchr(bytes.data, '%', bytes.size));
  pd_buf_done(&escaped);
  pd_buf_done(&back);
  pd_buf_done(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1);
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_error err = {0};
  if (!text) abort();
  memcpy(text, data, size);
  text[size] = 0;
  pd_code code = pd_backend_find(text, &ops, &rest, &err);
  if (code == PD_OK) {
    FUZZ_REQUIRE(ops && rest > text && rest <= text + strlen(text) && rest[-1] == ':');
    FUZZ_REQUIRE(strncmp(text, ops->scheme, strlen(ops->scheme)) == 0);
  } else {
    FUZZ_REQUIRE(code == PD_INVALID && err.code == code && err.message[0] && !ops && !rest);
  }
  check_names(text, (pd_bytes){data, size});
  check_escapes((pd_bytes){data, size});
  free(text);
  return 0;
}
