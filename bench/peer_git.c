/* peer_git.c: see peer_git.h. The 257 tree builders are kept between commits, which is the cheapest way libgit2 has to write. */
#include "peer_git.h"

#include <git2.h>
#include <git2/sys/commit.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#define FAN_COUNT 256

struct peer_git {
  git_repository *repo;
  git_treebuilder *fans[FAN_COUNT];
  git_treebuilder *root;
  bool is_dirty[FAN_COUNT];
  git_oid head;
  bool has_head;
};

static pd_code git_check(int rc, const char *doing, pd_error *err)
{
  if (rc >= 0) return PD_OK;
  const git_error *last = git_error_last();
  return pd_error_set(err, PD_STORAGE, "libgit2, %s: %s", doing, last ? last->message : "unknown error");
}

/* Destructors for CLEANUP: libgit2's own take the pointer, not its address. */
static void commit_done(git_commit **p)
{
  git_commit_free(*p);
}
static void tree_done(git_tree **p)
{
  git_tree_free(*p);
}
static void blob_done(git_blob **p)
{
  git_blob_free(*p);
}
static void diff_done(git_diff **p)
{
  git_diff_free(*p);
}
static void signature_done(git_signature **p)
{
  git_signature_free(*p);
}
static void repo_done(git_repository **p)
{
  git_repository_free(*p);
}
static void packbuilder_done(git_packbuilder **p)
{
  git_packbuilder_free(*p);
}
static void revwalk_done(git_revwalk **p)
{
  git_revwalk_free(*p);
}

typedef struct place {
  unsigned fan;
  char fan_name[3];
  char name[PD_KEY_SIZE_MAX + 1]; /* the key; a tree entry cannot contain '/' */
} place;

static pd_code find_place(pd_bytes key, place *out, pd_error *err)
{
  if (key.size >= sizeof(out->name)) return pd_error_set(err, PD_LIMIT, "a key of %zu bytes", key.size);
  pd_id id = pd_value_id(key);
  out->fan = id.bytes[0];
  snprintf(out->fan_name, sizeof(out->fan_name), "%02x", out->fan);
  memcpy(out->name, key.data, key.size);
  out->name[key.size] = 0;
  for (char *c = out->name; *c; c++)
    if (*c == '/') *c = '~';
  return PD_OK;
}

pd_code peer_git_open(const char *dir, peer_git **out, pd_error *err)
{
  TRY(git_check(git_libgit2_init(), "init", err));
  /* Do not look up each entry's object when a tree is written: we have just written them. */
  TRY(git_check(git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 0), "options", err));
  peer_git *git = calloc(1, sizeof(*git));
  if (!git) return pd_error_memory(err, "a git repository");
  pd_code code = git_check(git_repository_init(&git->repo, dir, 1), dir, err);
  if (code == PD_OK) code = git_check(git_treebuilder_new(&git->root, git->repo, NULL), "tree", err);
  for (size_t i = 0; i < FAN_COUNT && code == PD_OK; i++)
    code = git_check(git_treebuilder_new(&git->fans[i], git->repo, NULL), "tree", err);
  if (code != PD_OK) {
    peer_git_close(git);
    return code;
  }
  *out = git;
  return PD_OK;
}

void peer_git_close(peer_git *git)
{
  if (!git) return;
  for (size_t i = 0; i < FAN_COUNT; i++) git_treebuilder_free(git->fans[i]);
  git_treebuilder_free(git->root);
  git_repository_free(git->repo);
  free(git);
  git_libgit2_shutdown();
}

void peer_git_done(peer_git **git)
{
  peer_git_close(*git);
}

pd_code peer_git_stage(peer_git *git, pd_bytes key, pd_bytes value, pd_error *err)
{
  place where;
  git_oid blob;
  TRY(find_place(key, &where, err));
  TRY(git_check(git_blob_create_from_buffer(&blob, git->repo, value.data, value.size), "write a blob", err));
  TRY(git_check(git_treebuilder_insert(NULL, git->fans[where.fan], where.name, &blob, GIT_FILEMODE_BLOB), "stage", err));
  git->is_dirty[where.fan] = true;
  return PD_OK;
}

static pd_code write_trees(peer_git *git, git_oid *out, pd_error *err)
{
  char name[3];
  git_oid tree;
  for (unsigned i = 0; i < FAN_COUNT; i++) {
    if (!git->is_dirty[i]) continue;
    snprintf(name, sizeof(name), "%02x", i);
    TRY(git_check(git_treebuilder_write(&tree, git->fans[i]), "write a tree", err));
    TRY(git_check(git_treebuilder_insert(NULL, git->root, name, &tree, GIT_FILEMODE_TREE), "write a tree", err));
    git->is_dirty[i] = false;
  }
  return git_check(git_treebuilder_write(out, git->root), "write the root tree", err);
}

pd_code peer_git_commit(peer_git *git, peer_git_id *out, pd_error *err)
{
  CLEANUP(signature_done) git_signature *who = NULL;
  git_oid tree, commit;
  const git_oid *parents[1] = {&git->head};
  TRY(write_trees(git, &tree, err));
  TRY(git_check(git_signature_now(&who, "bench", "bench@localhost"), "signature", err));
  TRY(git_check(git_commit_create_from_ids(&commit, git->repo, NULL, who, who, NULL, "put\n", &tree, git->has_head ? 1 : 0, parents),
                "write a commit", err));
  git->head = commit;
  git->has_head = true;
  memcpy(out->bytes, commit.id, PEER_GIT_ID_SIZE);
  return PD_OK;
}

static pd_code open_tree(peer_git *git, const peer_git_id *commit_id, git_tree **out, pd_error *err)
{
  CLEANUP(commit_done) git_commit *commit = NULL;
  git_oid oid;
  memcpy(oid.id, commit_id->bytes, PEER_GIT_ID_SIZE);
  TRY(git_check(git_commit_lookup(&commit, git->repo, &oid), "read a commit", err));
  return git_check(git_commit_tree(out, commit), "read a tree", err);
}

pd_code peer_git_get(peer_git *git, const peer_git_id *commit, pd_bytes key, pd_buf *out, pd_error *err)
{
  CLEANUP(tree_done) git_tree *root = NULL;
  CLEANUP(tree_done) git_tree *fan = NULL;
  CLEANUP(blob_done) git_blob *blob = NULL;
  place where;
  TRY(find_place(key, &where, err));
  TRY(open_tree(git, commit, &root, err));
  const git_tree_entry *entry = git_tree_entry_byname(root, where.fan_name);
  if (!entry) return pd_error_set(err, PD_NOT_FOUND, "libgit2: no subtree %s", where.fan_name);
  TRY(git_check(git_tree_lookup(&fan, git->repo, git_tree_entry_id(entry)), "read a subtree", err));
  entry = git_tree_entry_byname(fan, where.name);
  if (!entry) return pd_error_set(err, PD_NOT_FOUND, "libgit2: no blob %s", where.name);
  TRY(git_check(git_blob_lookup(&blob, git->repo, git_tree_entry_id(entry)), "read a blob", err));
  pd_buf_clear(out);
  return pd_buf_append(out, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob), err);
}

pd_code peer_git_diff(peer_git *git, const peer_git_id *before, const peer_git_id *after, size_t *out_count, pd_error *err)
{
  CLEANUP(tree_done) git_tree *old_tree = NULL;
  CLEANUP(tree_done) git_tree *new_tree = NULL;
  CLEANUP(diff_done) git_diff *diff = NULL;
  TRY(open_tree(git, before, &old_tree, err));
  TRY(open_tree(git, after, &new_tree, err));
  TRY(git_check(git_diff_tree_to_tree(&diff, git->repo, old_tree, new_tree, NULL), "diff", err));
  *out_count = git_diff_num_deltas(diff);
  return PD_OK;
}

pd_code peer_git_pack(peer_git *git, const peer_git_id *commit, const char *dir, pd_error *err)
{
  CLEANUP(repo_done) git_repository *packed = NULL;
  CLEANUP(packbuilder_done) git_packbuilder *builder = NULL;
  CLEANUP(revwalk_done) git_revwalk *walk = NULL;
  char pack_dir[4096];
  git_oid oid;
  if (snprintf(pack_dir, sizeof(pack_dir), "%s/objects/pack", dir) >= (int)sizeof(pack_dir))
    return pd_error_set(err, PD_LIMIT, "the path '%s' is too long", dir);
  memcpy(oid.id, commit->bytes, PEER_GIT_ID_SIZE);
  TRY(git_check(git_repository_init(&packed, dir, 1), dir, err));
  TRY(git_check(git_packbuilder_new(&builder, git->repo), "pack", err));
  TRY(git_check(git_revwalk_new(&walk, git->repo), "pack", err));
  TRY(git_check(git_revwalk_push(walk, &oid), "pack", err));
  TRY(git_check(git_packbuilder_insert_walk(builder, walk), "pack", err));
  return git_check(git_packbuilder_write(builder, pack_dir, 0, NULL, NULL), "write a pack", err);
}
