/*
 * proof.h: making proofs from nodes and commits. Checking is pd_check_proof of include/perdure/proof.h. Pure.
 *
 *   F1  A proof has one encoding: nothing in it is free, and its last 32 bytes are the SHA-256 of all before (the seal), so every changed
 *       byte is refused. The seal is no secret: what makes a proof sound is that ids bind.
 *   F2  The walk is pd_tree_find's: the child is the last entry whose key is not greater than the one that is looked for.
 *   F3  On the path each node is checked as far as it can be: keys ascend, levels go down by one, a child's first key is the key of its
 *       entry, and its last is less than the key of the next one.
 *
 * Byte table and why this is sound: docs/formats.md. tools/verify-proof.c is the same check without the library; a test keeps them one.
 */
#ifndef PD_DAG_PROOF_H
#define PD_DAG_PROOF_H

#include "dag/commit.h"
#include "dag/tree.h"

/* `out` is cleared. `key` is empty for descent. */
PD_MUST_USE pd_code pd_proof_begin(pd_buf *out, pd_proof_kind kind, pd_bytes key, pd_error *err);
PD_MUST_USE pd_code pd_proof_add_commit(pd_buf *out, const pd_id *tree, const pd_id *parents, size_t parent_count, pd_error *err);
/* The nodes from `root` to where `key` is, or would be. */
PD_MUST_USE pd_code pd_proof_add_path(pd_buf *out, pd_tree *tree, pd_node *root, pd_bytes key, pd_error *err);
PD_MUST_USE pd_code pd_proof_add_value(pd_buf *out, pd_bytes value, pd_error *err);
PD_MUST_USE pd_code pd_proof_seal(pd_buf *out, pd_error *err);

#endif
