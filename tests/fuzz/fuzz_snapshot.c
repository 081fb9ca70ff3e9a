/* fuzz_snapshot.c: an agent's snapshot. What is accepted can be taken to pieces and joined again, and means the same then. */
#include "base/base.h"
#include "base/buf.h"
#include "base/json_merge.h"
#include "fuzz/fuzz.h"
#include "storage/pieces.h"
#include "storage/redis_uri.h"

typedef struct source {
  const pd_pieces *pieces;
  size_t at[PD_PIECE_KINDS];
} source;

static pd_code next_piece(void *ctx, pd_piece_kind kind, pd_bytes *out_name, pd_bytes *out_value, pd_error *err)
{
  static char key[PD_PIECE_KEY_MAX];
  source *s = ctx;
  (void)err;
  if (s->at[kind] == s->pieces->size[kind]) return PD_NOT_FOUND;
  size_t index = s->pieces->begin[kind] + s->at[kind]++, prefix = strlen(pd_piece_prefix(kind));
  pd_bytes whole = pd_pieces_key(s->pieces, index, key);
  FUZZ_REQUIRE(pd_key_check(whole, NULL) == PD_OK);
  *out_name = (pd_bytes){key + prefix, whole.size - prefix};
  *out_value = pd_pieces_value(s->pieces, index);
  return PD_OK;
}

static void round_trip(const pd_snapshot_parts *parts)
{
  CLEANUP(pd_pieces_done) pd_pieces pieces = {0};
  CLEANUP(pd_buf_done) pd_buf joined = {0};
  pd_json again;
  bool is_same = false;
  FUZZ_REQUIRE(pd_pieces_make(parts, &pieces, NULL) == PD_OK);
  source s = {.pieces = &pieces};
  FUZZ_REQUIRE(pd_pieces_join(pd_pieces_value(&pieces, pieces.begin[PD_PIECE_SNAPSHOT]),
                              pd_pieces_value(&pieces, pieces.begin[PD_PIECE_WINDOW]), next_piece, &s, &joined, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_json_parse(pd_buf_bytes(&joined), &again, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_json_equal(parts->top, again, &is_same, NULL) != PD_OK || is_same);
  FUZZ_REQUIRE(pd_snapshot_check(pd_buf_bytes(&joined), NULL, NULL, NULL) == PD_OK);
}

/* The same bytes as pieces that somebody meddled with, and as a Redis URI: refused or not, nothing breaks. */
static void look_at_others(pd_bytes bytes, const char *text)
{
  static const pd_pieces none;
  CLEANUP(pd_buf_done) pd_buf joined = {0};
  source s = {.pieces = &none};
  pd_redis_address address;
  pd_code code = pd_pieces_join(bytes, pd_text("{\"effects\":0,\"events\":0,\"history\":0,\"replies\":0,\"variables\":0}"), next_piece, &s,
                                &joined, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT);
  for (int way = PD_REDIS_TCP; way <= PD_REDIS_UNIX; way++) {
    code = pd_redis_uri_parse(way, text, &address, NULL);
    FUZZ_REQUIRE(code == PD_INVALID || (code == PD_OK && *address.host));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_snapshot_parts parts;
  pd_snapshot facts;
  pd_error err = {0};
  FUZZ_REQUIRE(pd_buf_append(&text, data, size, NULL) == PD_OK && pd_buf_byte(&text, 0, NULL) == PD_OK);
  pd_code code = pd_snapshot_check((pd_bytes){data, size}, NULL, NULL, &err);
  FUZZ_REQUIRE(code == PD_OK || ((code == PD_INVALID || code == PD_LIMIT) && *err.message));
  if (code == PD_OK) {
    FUZZ_REQUIRE(pd_snapshot_split((pd_bytes){data, size}, NULL, &parts, &facts, NULL) == PD_OK);
    round_trip(&parts);
  }
  look_at_others((pd_bytes){data, size}, (const char *)text.data);
  return 0;
}
