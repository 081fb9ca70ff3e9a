/*
 * verify-proof FILE [COMMIT]: check a proof that `perdure prove` made. Needs nothing but a C compiler: cc -O2 verify-proof.c
 *
 * Prints what the proof shows and exits 0, or says why it shows nothing and exits 1; 2 if it cannot be read. Give the commit id that
 * you trust, or compare the printed one, and the key: anybody can make a proof about a commit of his own. Format: docs/formats.md.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SHA-256 (FIPS 180-4) */
static const uint32_t rounds[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
  0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
  0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
  0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
  0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
#define TURN(x, n) ((x) >> (n) | (x) << (32 - (n)))

static void hash_block(uint32_t state[8], const uint8_t *p)
{
  uint32_t w[64], v[8];
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 16; i++, p += 4) w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (TURN(a, 7) ^ TURN(a, 18) ^ a >> 3) + w[i - 7] + (TURN(b, 17) ^ TURN(b, 19) ^ b >> 10);
  }
  for (int i = 0; i < 64; i++) {
    uint32_t a = v[0], e = v[4];
    uint32_t t1 = v[7] + (TURN(e, 6) ^ TURN(e, 11) ^ TURN(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
    uint32_t t2 = (TURN(a, 2) ^ TURN(a, 13) ^ TURN(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1, v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

static void sha256(const uint8_t *data, size_t size, uint8_t out[32])
{
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t last[128] = {0}; /* what is left over, 80, zeros, the size in bits */
  size_t whole = size / 64 * 64, rest = size - whole, last_size = rest < 56 ? 64 : 128;
  for (size_t i = 0; i < whole; i += 64) hash_block(state, data + i);
  if (rest) memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  for (int i = 0; i < 8; i++) last[last_size - 1 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
  for (size_t i = 0; i < last_size; i += 64) hash_block(state, last + i);
  for (int i = 0; i < 32; i++) out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

typedef struct piece { const uint8_t *at; size_t size; } piece;
typedef struct node { uint8_t id[32], kid[32]; unsigned level; piece first, last, found, next; } node; /* empty pieces: no such key */
typedef struct shown { int kind; piece key, value; uint8_t commit[32], ancestor[32], value_id[32]; } shown;
enum { VALUE = 1, ABSENT = 3, DESCENT = 4 }; /* 2: a value by its id */
#define PROOF_SIZE_MAX ((size_t)64 << 20)
#define REFUSE_IF(claim, why) do { if (claim) return why; } while (0)

/* The next `size` bytes of `in`, or NULL if there are not so many. */
static const uint8_t *take(piece *in, size_t size)
{
  if (in->size < size) return NULL;
  in->at += size, in->size -= size;
  return in->at - size;
}

static int take_key(piece *in, piece *out)
{
  const uint8_t *p = take(in, 2);
  out->size = p ? (size_t)(p[0] | p[1] << 8) : 0;
  out->at = out->size && out->size <= 1024 ? take(in, out->size) : NULL;
  return out->at != NULL;
}

static int compare(piece a, piece b)
{
  int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
  return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* A commit: 'C', number of parents, tree id, parent ids. */
static const char *take_commit(piece *in, uint8_t id[32], const uint8_t **tree, piece *parents)
{
  const uint8_t *begin = take(in, 34);
  REFUSE_IF(!begin || begin[0] != 'C' || begin[1] > 16, "there is no commit where one should be");
  *tree = begin + 2;
  *parents = (piece){begin + 34, (size_t)begin[1] * 32};
  REFUSE_IF(!take(in, parents->size), "it ends within a commit");
  sha256(begin, 34 + parents->size, id);
  return NULL;
}

/* A node: 'N', level, number of entries (2); per entry key size (2), key, id. `found` is the last key that is not greater than `key`. */
static const char *take_node(piece *in, piece key, node *out)
{
  const uint8_t *begin = take(in, 4);
  size_t count = begin ? (size_t)(begin[2] | begin[3] << 8) : 257;
  REFUSE_IF(count > 256 || begin[0] != 'N' || begin[1] > 15 || (begin[1] && !count), "there is no tree node where one should be");
  *out = (node){.level = begin[1]};
  for (size_t i = 0; i < count; i++) {
    piece own;
    const uint8_t *kid = take_key(in, &own) ? take(in, 32) : NULL;
    REFUSE_IF(!kid, "it ends within a tree node, or a key has no valid size");
    REFUSE_IF(i && compare(out->last, own) >= 0, "the keys of a tree node do not ascend");
    if (!i) out->first = own;
    out->last = own;
    if (compare(own, key) <= 0) out->found = own, memcpy(out->kid, kid, 32);
    else if (!out->next.at) out->next = own;
  }
  sha256(begin, (size_t)(in->at - begin), out->id);
  return NULL;
}

static const char *check_key(piece *in, shown *out)
{
  const uint8_t *tree;
  piece parents, high = {0};
  node above, here;
  REFUSE_IF(!take_key(in, &out->key), "its key has no valid size");
  const char *why = take_commit(in, out->commit, &tree, &parents);
  for (int is_root = 1;; is_root = 0) {
    if (why || (why = take_node(in, out->key, &here))) return why;
    REFUSE_IF(memcmp(here.id, is_root ? tree : above.kid, 32) != 0, "a tree node does not match the id above it");
    REFUSE_IF(!is_root && (here.level + 1 != above.level || !here.first.at || compare(here.first, above.found) != 0 ||
                           (high.at && compare(here.last, high) >= 0)), "a tree node does not fit the one above it");
    if (!here.level || !here.found.at) break;
    if (here.next.at) high = here.next;
    above = here;
  }
  memcpy(out->value_id, here.kid, 32);
  int is_found = !here.level && here.found.at && compare(here.found, out->key) == 0;
  REFUSE_IF(is_found != (out->kind != ABSENT), is_found ? "the key is not absent" : "the key is absent");
  if (out->kind != VALUE) return NULL;
  out->value = *in, in->size = 0;
  sha256(out->value.at, out->value.size, here.id);
  return memcmp(here.id, out->value_id, 32) == 0 ? NULL : "the value does not match its id";
}

static const char *check_descent(piece *in, shown *out)
{
  const uint8_t *tree;
  piece parents, allowed;
  const char *why = take_commit(in, out->commit, &tree, &parents);
  memcpy(out->ancestor, out->commit, 32);
  for (size_t count = 0; !why && in->size; count++) {
    REFUSE_IF(count >= 100000, "it has more commits than a proof may have");
    allowed = parents;
    if ((why = take_commit(in, out->ancestor, &tree, &parents))) return why;
    while (allowed.size && memcmp(allowed.at, out->ancestor, 32) != 0) take(&allowed, 32);
    REFUSE_IF(!allowed.size, "a commit is no parent of the one before it");
  }
  return why;
}

/* NULL if the proof holds, else why not. */
static const char *check(const uint8_t *data, size_t size, shown *out)
{
  uint8_t seal[32];
  *out = (shown){0};
  REFUSE_IF(size > PROOF_SIZE_MAX, "it is larger than 64 MiB");
  REFUSE_IF(size < 38 || memcmp(data, "PDPF", 4) != 0, "these bytes are no proof");
  sha256(data, size - 32, seal);
  REFUSE_IF(memcmp(seal, data + size - 32, 32) != 0, "it was damaged or cut, its seal is wrong");
  REFUSE_IF(data[4] != 1 || data[5] < VALUE || data[5] > DESCENT, "it is of no known format or kind");
  piece in = {data + 6, size - 38};
  out->kind = data[5];
  const char *why = out->kind == DESCENT ? check_descent(&in, out) : check_key(&in, out);
  return why || !in.size ? why : "there is something after its end";
}

static void print(const char *label, const uint8_t *at, size_t size, int is_text)
{
  printf("%s ", label);
  for (size_t i = 0; i < size; i++) printf(!is_text ? "%02x" : at[i] < 0x20 || at[i] > 0x7e || at[i] == '\\' ? "\\x%02x" : "%c", at[i]);
  printf("\n");
}

int main(int argc, char **argv)
{
  shown s = {0};
  FILE *file = argc == 2 || argc == 3 ? fopen(argv[1], "rb") : NULL;
  static uint8_t *data; /* in sight of leak checkers until the end */
  data = malloc(PROOF_SIZE_MAX + 1);
  char commit[65];
  if (!file || !data) return fprintf(stderr, "cannot read it; usage: verify-proof FILE [COMMIT]\n"), 2;
  const char *why = check(data, fread(data, 1, PROOF_SIZE_MAX + 1, file), &s);
  for (int i = 0; i < 32; i++) snprintf(commit + 2 * i, 3, "%02x", s.commit[i]);
  if (!why && argc == 3 && strcmp(argv[2], commit) != 0) why = "it is for another commit";
  if (why) return fprintf(stderr, "refused: %s\n", why), 1;
  printf("commit %s\n", commit);
  if (s.kind == DESCENT) return print("descends from", s.ancestor, 32, 0), 0;
  print("key", s.key.at, s.key.size, 1);
  if (s.kind == ABSENT) return puts("absent"), 0;
  print("value id", s.value_id, 32, 0);
  if (s.kind == VALUE) print("value", s.value.at, s.value.size, 1);
  return 0;
}
