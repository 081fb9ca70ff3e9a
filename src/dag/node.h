/*
 * node.h: one node of a tree, in memory and as bytes.
 *
 * A leaf holds keys and value ids; an inner node holds the first key of each child and the child's id. The id of a node is the
 * SHA-256 of its *preimage* alone (level, keys, ids). Around it ride things that must not change the id: versions, times, where
 * a value lies, where a child lies. The blob in the bag is preimage + riders, and has an id of its own: the same content with
 * another history is another blob with the same node id.
 *
 * Byte tables: docs/formats.md. Invariants:
 *   N1  Keys ascend strictly; an inner entry's key is the first key of its child.
 *   N2  A node is never changed once it is shared, but for two caches: a child or a value that was loaded. One that has a single
 *       owner may be given another id in an entry (pd_node_set_id).
 *   N3  refs counts owners; all counting happens under the owner's lock.
 */
#ifndef PD_DAG_NODE_H
#define PD_DAG_NODE_H

#include <perdure/perdure.h>

#define PD_NODE_TAG 0x4E      /* 'N', the first byte of a preimage */
#define PD_NODE_COUNT_MAX 256 /* entries; also the longest run without a boundary */
#define PD_NODE_LEVEL_MAX 15
#define PD_POS_BAG UINT32_MAX           /* the value is a blob in the bag, not a slice of its record */
#define PD_POS_CHUNKED (UINT32_MAX - 1) /* it is in pieces in the bag; its record names the list of them */

/* A value's bytes in memory. Small ones are embedded in the leaf's own allocation and copied with it: copying 16 of them costs less
 * than touching 16 counts of references all over the heap. Larger ones are shared by the leaves that hold them. */
typedef struct pd_cell {
  uint32_t refs; /* 0: embedded in its leaf */
  uint32_t size;
  uint8_t data[];
} pd_cell;

#define PD_EMBED_SIZE_MAX 512
#define PD_PREFIX_INLINE 16

/* What an embedded value takes in its leaf. */
static inline size_t pd_embed_size(size_t value_size)
{
  return (sizeof(pd_cell) + value_size + 7) & ~(size_t)7;
}

/* What rides along with a leaf entry. */
typedef struct pd_rider {
  uint64_t seq; /* the record that wrote it */
  uint64_t version;
  int64_t created_ms, updated_ms;
  uint32_t size; /* of the value */
  uint32_t pos;  /* of the value in its record, or PD_POS_BAG */
} pd_rider;

/* The first 64 bytes are what a search needs, besides the heads. */
typedef struct pd_node {
  uint32_t refs;
  uint32_t size; /* bytes allocated */
  uint16_t count;
  uint16_t prefix_size; /* common to all keys */
  uint8_t level;        /* 0: leaf */
  bool is_saved : 1;    /* its blob, and all below it, are in the bag */
  bool has_forced : 1;  /* inner: some entry but the first is no natural boundary */
  bool has_shared : 1;  /* leaf: some cell is not embedded */
  bool is_used;         /* since the cache's hand last passed */
  uint64_t *heads;      /* 8 bytes of each key after the prefix, big-endian, zero-padded */
  union {
    struct pd_node **kids; /* inner; NULL: not loaded */
    pd_cell **cells;       /* leaf; NULL: not loaded */
  };
  uint8_t *packed;   /* the preimage without its header: size u16, key, id per entry */
  uint32_t *offsets; /* of each entry in `packed`; count + 1 of them */
  uint8_t prefix[PD_PREFIX_INLINE];
  pd_rider *riders;     /* leaf */
  pd_id *kid_blobs;     /* inner; only of kids that are not loaded: the others know it themselves */
  uint64_t *kid_counts; /* inner */
  uint8_t *embedded;    /* leaf: room for embedded cells */
  uint64_t key_count;   /* in leaves below it */
  uint32_t blob_size;   /* bytes its blob takes, or will take, about */
  pd_id id;
  pd_id blob_id; /* if is_saved */
} pd_node;

#define PD_POOL_CLASS_COUNT 40

/* Memory of all nodes and cells of one owner. A commit frees nodes of about the sizes that the next one needs: some are kept. */
typedef struct pd_node_pool {
  size_t bytes;                      /* alive */
  size_t dirty_bytes;                /* blob bytes of nodes that are not saved */
  void *spares[PD_POOL_CLASS_COUNT]; /* by size class; each begins with a pointer to the next */
  size_t spare_bytes, spare_bytes_max;
} pd_node_pool;

/* Free the spare memory. */
void pd_node_pool_done(pd_node_pool *pool);

pd_bytes pd_node_key(const pd_node *n, size_t index);
const uint8_t *pd_node_value_id(const pd_node *n, size_t index); /* or the child's id: 32 bytes */

/* The first index whose key is >= `key`; *out_equal says whether it is equal. */
size_t pd_node_find(const pd_node *n, pd_bytes key, bool *out_equal);

/* Which levels a key begins nodes at: a key of height h starts a new node at levels 0 … h-1. Decided by the key alone. */
unsigned pd_key_height(pd_bytes key);

/* Room for `count` entries, `packed_size` bytes of preimage and `embed_size` bytes of values; to be filled by the caller and closed
 * with pd_node_seal. refs is 1. */
PD_MUST_USE pd_code pd_node_new(pd_node_pool *pool, uint8_t level, size_t count, size_t packed_size, size_t embed_size, pd_node **out,
                                pd_error *err);
/* A copy with its own references to children and cells, to be changed with pd_node_set_id: no id is computed. refs is 1. */
PD_MUST_USE pd_code pd_node_clone(pd_node_pool *pool, const pd_node *n, pd_node **out, pd_error *err);
/* Compute prefix, heads, sums and the id of a filled node. */
void pd_node_seal(pd_node_pool *pool, pd_node *n);

/* Put another value id or child id into an entry of a node that has one owner, and hash it anew. It is no longer saved. */
void pd_node_set_id(pd_node_pool *pool, pd_node *n, size_t index, const pd_id *id);

pd_node *pd_node_ref(pd_node *n);
/* Drops one owner; frees node, loaded children and cells with the last. Takes NULL. */
void pd_node_unref(pd_node_pool *pool, pd_node *n);

PD_MUST_USE pd_code pd_cell_new(pd_node_pool *pool, pd_bytes value, pd_cell **out, pd_error *err);
void pd_cell_unref(pd_node_pool *pool, pd_cell *cell);

/* Append the preimage, whose SHA-256 is the node's id. */
PD_MUST_USE pd_code pd_node_add_preimage(const pd_node *n, pd_buf *out, pd_error *err);
/* Append the blob to `out`. All children must be saved. */
PD_MUST_USE pd_code pd_node_encode(const pd_node *n, pd_buf *out, pd_error *err);
/* Build the node from a blob; PD_CORRUPT if it is not well formed. The node is marked saved with `blob_id`. */
PD_MUST_USE pd_code pd_node_decode(pd_node_pool *pool, pd_bytes blob, const pd_id *blob_id, pd_node **out, pd_error *err);
void pd_node_mark_saved(pd_node_pool *pool, pd_node *n, const pd_id *blob_id);

#endif
