/* commit.h: the id of a commit: SHA-256 of 'C', the tree's id, the number of parents and their ids. Nothing else, so that a
 * retried write has the same id. */
#ifndef PD_DAG_COMMIT_H
#define PD_DAG_COMMIT_H

#include <perdure/perdure.h>

#define PD_COMMIT_TAG 0x43 /* 'C' */
#define PD_PARENT_COUNT_MAX 16

pd_id pd_commit_id(const pd_id *tree, const pd_id *parents, size_t parent_count);
/* The empty tree without parents: where every history begins. */
pd_id pd_commit_root_id(void);

#endif
