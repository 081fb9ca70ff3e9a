/* fuzz_node.c: tree nodes. What is accepted has ascending keys that are found, and encodes to the same bytes. */
#include "base/buf.h"
#include "dag/node.h"
#include "fuzz/fuzz.h"

static void check_node(const pd_node *n, pd_bytes blob)
{
  pd_buf again = {0};
  FUZZ_REQUIRE(n->count <= PD_NODE_COUNT_MAX && n->level <= PD_NODE_LEVEL_MAX);
  for (size_t i = 0; i < n->count; i++) {
    bool is_equal = false;
    pd_bytes key = pd_node_key(n, i);
    FUZZ_REQUIRE(key.size && key.size <= PD_KEY_SIZE_MAX);
    if (i) FUZZ_REQUIRE(pd_bytes_compare(pd_node_key(n, i - 1), key) < 0); /* N1 */
    FUZZ_REQUIRE(pd_node_find(n, key, &is_equal) == i && is_equal);
    FUZZ_REQUIRE(pd_node_value_id(n, i) != NULL);
  }
  FUZZ_REQUIRE(pd_node_encode(n, &again, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&again), blob));
  pd_buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_node_pool pool = {0};
  pd_node *node = NULL;
  pd_error err = {0};
  pd_bytes blob = {data, size};
  pd_id id = pd_value_id(blob);
  pd_code code = pd_node_decode(&pool, blob, &id, &node, &err);
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code && !node));
  if (code == PD_OK) check_node(node, blob);
  pd_node_unref(&pool, node);
  FUZZ_REQUIRE(pool.bytes == 0 && pool.dirty_bytes == 0);
  return 0;
}
