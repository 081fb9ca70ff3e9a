/* proof.c: proofs as bytes: made from nodes and commits, checked from nothing but themselves. See proof.h. */
#include "dag/proof.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "dag/cursor.h"

#define PROOF_FORMAT 1
#define HEAD_SIZE 6

static const char magic[4] = {'P', 'D', 'P', 'F'};

/* ---- making ---- */

pd_code pd_proof_begin(pd_buf *out, pd_proof_kind kind, pd_bytes key, pd_error *err)
{
  uint8_t key_size[2];
  pd_buf_clear(out);
  pd_put_u16(key_size, (uint16_t)key.size);
  TRY(pd_buf_append(out, magic, sizeof magic, err));
  TRY(pd_buf_byte(out, PROOF_FORMAT, err));
  TRY(pd_buf_byte(out, (uint8_t)kind, err));
  if (kind == PD_PROOF_DESCENT) return PD_OK;
  TRY(pd_buf_append(out, key_size, sizeof key_size, err));
  return pd_buf_append(out, key.data, key.size, err);
}

pd_code pd_proof_add_commit(pd_buf *out, const pd_id *tree, const pd_id *parents, size_t parent_count, pd_error *err)
{
  TRY(pd_buf_byte(out, PD_COMMIT_TAG, err));
  TRY(pd_buf_byte(out, (uint8_t)parent_count, err));
  TRY(pd_add_id(out, tree, err));
  return pd_buf_append(out, parents, parent_count * sizeof *parents, err);
}

pd_code pd_proof_add_path(pd_buf *out, pd_tree *tree, pd_node *root, pd_bytes key, pd_error *err)
{
  for (pd_node *n = root;;) {
    TRY(pd_node_add_preimage(n, out, err));
    if (!n->level) return PD_OK;
    bool is_equal;
    size_t i = pd_node_find(n, key, &is_equal);
    if (!is_equal && !i) return PD_OK; /* before the first key of all: nothing below could have it */
    TRY(pd_tree_kid(tree, n, is_equal ? i : i - 1, &n, err));
  }
}

pd_code pd_proof_add_value(pd_buf *out, pd_bytes value, pd_error *err)
{
  if (value.size > PD_PROOF_SIZE_MAX - out->size - PD_ID_SIZE)
    return pd_error_set(err, PD_LIMIT, "a value of %zu bytes is too large for a proof of at most %zu; prove its id instead", value.size,
                        PD_PROOF_SIZE_MAX);
  return pd_buf_append(out, value.data, value.size, err);
}

pd_code pd_proof_seal(pd_buf *out, pd_error *err)
{
  pd_id seal = pd_sha256(pd_buf_bytes(out));
  return pd_add_id(out, &seal, err);
}

/* ---- checking: each step gives NULL, or what is wrong ---- */

/* A commit's preimage. */
typedef struct commit_view {
  pd_id id, tree;
  pd_bytes parents;
} commit_view;

static const char *take_commit(pd_cursor *c, commit_view *out)
{
  const uint8_t *begin = c->next;
  uint8_t tag = pd_take_u8(c), parent_count = pd_take_u8(c);
  if (!c->failed && (tag != PD_COMMIT_TAG || parent_count > PD_PARENT_COUNT_MAX)) return "there is no commit where one should be";
  out->tree = pd_take_id(c);
  out->parents = pd_take_bytes(c, (size_t)parent_count * PD_ID_SIZE);
  if (c->failed) return "it ends within a commit";
  out->id = pd_sha256((pd_bytes){begin, (size_t)(c->next - begin)});
  return NULL;
}

/* A node's preimage, and where the wanted key lies in it. */
typedef struct node_view {
  pd_id id;
  uint8_t level;
  pd_bytes first, last; /* keys; empty if there are none */
  bool has_entry;       /* the last entry whose key is not greater than the wanted one: */
  pd_bytes entry_key;
  pd_id entry_id;
  pd_bytes next_key; /* of the entry after it; empty: none */
} node_view;

static const char *take_entries(pd_cursor *c, size_t count, pd_bytes key, node_view *out)
{
  for (size_t i = 0; i < count; i++) {
    pd_bytes entry_key = pd_take_bytes(c, pd_take_u16(c));
    pd_id id = pd_take_id(c);
    if (c->failed) return "it ends within a tree node";
    if (!entry_key.size || entry_key.size > PD_KEY_SIZE_MAX) return "a tree node has a key of no valid size";
    if (i && pd_bytes_compare(out->last, entry_key) >= 0) return "the keys of a tree node do not ascend";
    if (!i) out->first = entry_key;
    out->last = entry_key;
    if (pd_bytes_compare(entry_key, key) <= 0) {
      out->has_entry = true;
      out->entry_key = entry_key;
      out->entry_id = id;
    } else if (!out->next_key.size) {
      out->next_key = entry_key;
    }
  }
  return NULL;
}

static const char *take_node(pd_cursor *c, pd_bytes key, node_view *out)
{
  const uint8_t *begin = c->next;
  memset(out, 0, sizeof *out);
  uint8_t tag = pd_take_u8(c);
  out->level = pd_take_u8(c);
  size_t count = pd_take_u16(c);
  if (c->failed) return "it ends where a tree node should be";
  if (tag != PD_NODE_TAG || out->level > PD_NODE_LEVEL_MAX || count > PD_NODE_COUNT_MAX || (out->level && !count))
    return "there is no tree node where one should be";
  const char *why = take_entries(c, count, key, out);
  out->id = pd_sha256((pd_bytes){begin, (size_t)(c->next - begin)});
  return why;
}

/* F3: what a node above demands of the one below. */
static bool fits(const node_view *above, pd_bytes high, const node_view *below)
{
  if (below->level + 1 != above->level || !pd_bytes_equal(below->first, above->entry_key)) return false;
  return !high.size || pd_bytes_compare(below->last, high) < 0;
}

static const char *check_path(pd_cursor *c, const pd_id *tree, pd_bytes key, bool *out_found, pd_id *out_value_id)
{
  node_view above = {0}, here;
  pd_bytes high = {NULL, 0}; /* all keys below are less; empty: no bound */
  pd_id due = *tree;
  for (bool is_root = true;; is_root = false) {
    const char *why = take_node(c, key, &here);
    if (why) return why;
    if (!pd_id_equal(&here.id, &due)) return "a tree node does not match the id above it";
    if (!is_root && !fits(&above, high, &here)) return "a tree node does not fit the one above it";
    if (!here.level || !here.has_entry) break;
    if (here.next_key.size) high = here.next_key;
    due = here.entry_id;
    above = here;
  }
  *out_found = !here.level && here.has_entry && pd_bytes_equal(here.entry_key, key);
  *out_value_id = here.entry_id;
  return NULL;
}

static const char *check_key(pd_cursor *c, pd_proof *out)
{
  commit_view commit;
  bool is_found;
  out->key = pd_take_bytes(c, pd_take_u16(c));
  if (c->failed || !out->key.size || out->key.size > PD_KEY_SIZE_MAX) return "its key has no valid size";
  const char *why = take_commit(c, &commit);
  if (!why) why = check_path(c, &commit.tree, out->key, &is_found, &out->value_id);
  if (why) return why;
  out->commit = commit.id;
  out->tree = commit.tree;
  if (is_found != (out->kind != PD_PROOF_ABSENT)) return is_found ? "the key is not absent" : "the key is absent";
  if (!is_found) memset(&out->value_id, 0, sizeof out->value_id);
  if (out->kind != PD_PROOF_VALUE) return NULL;
  out->value = pd_take_bytes(c, pd_cursor_left(c));
  pd_id id = pd_sha256(out->value);
  return pd_id_equal(&id, &out->value_id) ? NULL : "the value does not match its id";
}

static bool has_parent(const commit_view *commit, const pd_id *id)
{
  const uint8_t *p = commit->parents.data;
  for (size_t at = 0; at < commit->parents.size; at += PD_ID_SIZE)
    if (memcmp(p + at, id->bytes, PD_ID_SIZE) == 0) return true;
  return false;
}

static const char *check_descent(pd_cursor *c, pd_proof *out)
{
  commit_view here, before;
  const char *why = take_commit(c, &here);
  if (why) return why;
  out->commit = here.id;
  out->tree = here.tree;
  while (pd_cursor_left(c)) {
    before = here;
    why = take_commit(c, &here);
    if (why) return why;
    if (!has_parent(&before, &here.id)) return "a commit is no parent of the one before it";
    if (++out->distance > PD_DESCENT_MAX) return "it has more commits than a proof may have";
  }
  out->ancestor = here.id;
  return NULL;
}

static const char *check_whole(pd_cursor *c, pd_proof *out)
{
  if (out->kind < PD_PROOF_VALUE || out->kind > PD_PROOF_DESCENT) return "it is of no known kind";
  const char *why = out->kind == PD_PROOF_DESCENT ? check_descent(c, out) : check_key(c, out);
  return why || pd_cursor_ok(c) ? why : "there is something after its end";
}

static pd_code refuse(pd_error *err, const char *why)
{
  return pd_error_set(err, PD_CORRUPT, "the proof is refused: %s", why);
}

static pd_code compare_expected(const pd_proof *p, const pd_proof_expect *expect, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  if (expect->commit && !pd_id_equal(expect->commit, &p->commit))
    return pd_error_set(err, PD_CONFLICT, "the proof is for another commit: %s", pd_id_hex(&p->commit, hex));
  bool is_descent = p->kind == PD_PROOF_DESCENT;
  if (expect->key.size && is_descent) return pd_error_set(err, PD_CONFLICT, "the proof is one of descent, not of a key");
  if (expect->key.size && !pd_bytes_equal(expect->key, p->key)) return pd_error_set(err, PD_CONFLICT, "the proof is for another key");
  if (expect->ancestor && !is_descent) return pd_error_set(err, PD_CONFLICT, "the proof is one of a key, not of descent");
  if (expect->ancestor && !pd_id_equal(expect->ancestor, &p->ancestor))
    return pd_error_set(err, PD_CONFLICT, "the proof is for another ancestor: %s", pd_id_hex(&p->ancestor, hex));
  return PD_OK;
}

pd_code pd_check_proof(pd_bytes proof, const pd_proof_expect *expect, pd_proof *out, pd_error *err)
{
  const uint8_t *p = proof.data;
  if (proof.size > PD_PROOF_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a proof of %zu bytes is over the limit of %zu", proof.size, PD_PROOF_SIZE_MAX);
  if (proof.size < HEAD_SIZE + PD_ID_SIZE || memcmp(p, magic, sizeof magic) != 0) return refuse(err, "these bytes are no proof");
  pd_bytes body = {p, proof.size - PD_ID_SIZE};
  pd_id seal = pd_sha256(body);
  if (memcmp(seal.bytes, p + body.size, PD_ID_SIZE) != 0) return refuse(err, "it was damaged or cut, its seal is wrong");
  if (p[4] != PROOF_FORMAT) return pd_error_set(err, PD_FORMAT, "the proof has format %u, this perdure knows %u", p[4], PROOF_FORMAT);
  pd_cursor c = pd_cursor_of((pd_bytes){p + HEAD_SIZE, body.size - HEAD_SIZE});
  pd_proof shown = {.kind = (pd_proof_kind)p[5]};
  const char *why = check_whole(&c, &shown);
  if (why) return refuse(err, why);
  if (expect) TRY(compare_expected(&shown, expect, err));
  if (out) *out = shown;
  return PD_OK;
}
