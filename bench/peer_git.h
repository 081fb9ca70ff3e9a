/*
 * peer_git.h: libgit2 as a store of versioned state: one blob a key, fanned out into 256 subtrees by the first byte of the key's
 * SHA-256, one git commit a commit. Read as an embedder would: commit by id, root tree, subtree, blob.
 */
#ifndef BENCH_PEER_GIT_H
#define BENCH_PEER_GIT_H

#include <perdure/perdure.h>

#define PEER_GIT_ID_SIZE 20

typedef struct peer_git_id {
  uint8_t bytes[PEER_GIT_ID_SIZE];
} peer_git_id;

typedef struct peer_git peer_git;

/* A bare repository in `dir`, created if it is not there. Loose objects, nothing synced: the load is not what is measured. */
PD_MUST_USE pd_code peer_git_open(const char *dir, peer_git **out, pd_error *err);
/* Takes NULL. */
void peer_git_close(peer_git *git);
/* For CLEANUP. */
void peer_git_done(peer_git **git);

/* Stage a value; then commit what is staged on top of the last commit made through this handle. */
PD_MUST_USE pd_code peer_git_stage(peer_git *git, pd_bytes key, pd_bytes value, pd_error *err);
PD_MUST_USE pd_code peer_git_commit(peer_git *git, peer_git_id *out, pd_error *err);

/* Copies the value into `out` (reused). */
PD_MUST_USE pd_code peer_git_get(peer_git *git, const peer_git_id *commit, pd_bytes key, pd_buf *out, pd_error *err);
/* Count the keys that differ between the trees of two commits (git_diff_tree_to_tree). */
PD_MUST_USE pd_code peer_git_diff(peer_git *git, const peer_git_id *before, const peer_git_id *after, size_t *out_count, pd_error *err);
/* Write everything reachable from `commit` as one pack into a new repository at `dir`: what `git gc` leaves behind. */
PD_MUST_USE pd_code peer_git_pack(peer_git *git, const peer_git_id *commit, const char *dir, pd_error *err);

#endif
