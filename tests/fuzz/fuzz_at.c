/* fuzz_at.c: points in history as text, on a small store in memory. */
#include "fuzz/fuzz.h"

#include <perdure/perdure.h>

static pd_store *store;

static void make_store(void)
{
  pd_ack ack;
  FUZZ_REQUIRE(pd_store_open("memory:", "fuzz", NULL, &store, NULL) == PD_OK);
  for (int i = 0; i < 40; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i % 7);
    FUZZ_REQUIRE(pd_put(store, pd_text(key), pd_text("v"), NULL, &ack, NULL) == PD_OK);
    if (i == 10) FUZZ_REQUIRE(pd_fork(store, "side", NULL, NULL, &ack, NULL) == PD_OK);
    if (i == 15) FUZZ_REQUIRE(pd_tag_set(store, "v1", NULL, false, NULL, NULL, NULL) == PD_OK);
    if (i == 16) FUZZ_REQUIRE(pd_message_link(store, &(pd_message){.id = "m@1"}, NULL, NULL, NULL, NULL) == PD_OK);
    if (i == 20) FUZZ_REQUIRE(pd_undo(store, 3, NULL, &ack, NULL) == PD_OK);
  }
}

static void check_error(const pd_error *err, pd_code code)
{
  FUZZ_REQUIRE(code == PD_NOT_FOUND || code == PD_INVALID || code == PD_AMBIGUOUS || code == PD_LIMIT);
  FUZZ_REQUIRE(err->code == code && err->message[0] && memchr(err->message, 0, sizeof err->message));
  for (const char *c = err->message; *c; c++) FUZZ_REQUIRE((unsigned char)*c >= 0x20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!store) make_store();
  char *text = malloc(size + 1), hex[PD_ID_HEX_SIZE];
  pd_commit commit, again;
  pd_error err = {0};
  if (!text) abort();
  memcpy(text, data, size);
  text[size] = 0;
  pd_code code = pd_resolve(store, text, &commit, &err);
  if (code == PD_OK) {
    FUZZ_REQUIRE(pd_resolve(store, pd_id_hex(&commit.id, hex), &again, &err) == PD_OK);
    FUZZ_REQUIRE(pd_id_equal(&commit.id, &again.id) && pd_id_equal(&commit.tree, &again.tree));
  } else {
    check_error(&err, code);
  }
  free(text);
  return 0;
}
