/* commit.c: see commit.h. */
#include "dag/commit.h"

#include "base/base.h"
#include "base/sha256.h"
#include "dag/tree.h"

pd_id pd_commit_id(const pd_id *tree, const pd_id *parents, size_t parent_count)
{
  uint8_t head[2 + PD_ID_SIZE] = {PD_COMMIT_TAG, (uint8_t)parent_count};
  memcpy(head + 2, tree->bytes, PD_ID_SIZE);
  pd_bytes parts[] = {{head, sizeof head}, {parents, parent_count * sizeof *parents}};
  return pd_sha256_parts(parts, COUNT_OF(parts));
}

pd_id pd_commit_root_id(void)
{
  pd_id tree = pd_tree_empty_id();
  return pd_commit_id(&tree, NULL, 0);
}
