/*
 * proof.h: proofs of keys and of descent, signed heads. Included by perdure.h; errors, lifetimes and `at` are explained there.
 *
 * A PROOF is a small piece of bytes that shows one thing to somebody who has a commit id and nothing else, no store and no trust in
 * whoever keeps it: that a key has a value under that commit, that a key is absent there, or that one commit descends from another.
 * The id of a commit covers its tree and all commits before it, so what follows from the id cannot be made up. A proof says nothing
 * about who made the commit and when, nor that the commit is the newest one: for that there are signed heads.
 *
 *     pd_buf proof = {0};
 *     pd_prove(store, NULL, pd_text("plan"), true, &proof, &err);
 *     …                                                          // elsewhere, with the commit id from a source that is trusted
 *     pd_proof shown;
 *     pd_proof_expect expect = {.commit = &id, .key = pd_text("plan")};
 *     if (pd_check_proof((pd_bytes){data, size}, &expect, &shown, &err) == PD_OK && shown.kind == PD_PROOF_VALUE) use(shown.value);
 *
 * A SIGNED HEAD is a line of JSON in which the owner of a home's Ed25519 key says: at this time, this store's log ended with this
 * record and audit id, and this ref was at this commit. Kept outside of the home, it shows later whether the history was changed.
 *
 * Byte tables and why a proof is sound: docs/formats.md. tools/verify-proof.c checks proofs without this library.
 */
#ifndef PERDURE_PROOF_H
#define PERDURE_PROOF_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- proofs ------------------------------------------------------------------------------------------------------ */

#define PD_PROOF_SIZE_MAX ((size_t)64 << 20) /* larger ones are neither made nor looked at: prove large values by id */
#define PD_DESCENT_MAX 100000                /* commits from the younger back to the older; a proof of descent grows with them */

typedef enum pd_proof_kind {
  PD_PROOF_VALUE = 1,    /* the key has this value; its bytes are in the proof */
  PD_PROOF_VALUE_ID = 2, /* the key has the value with this id */
  PD_PROOF_ABSENT = 3,   /* the key is not there */
  PD_PROOF_DESCENT = 4   /* the commit descends from the ancestor, or is it */
} pd_proof_kind;

/* What a proof shows. Slices are borrowed from the proof's bytes. */
typedef struct pd_proof {
  pd_proof_kind kind;
  pd_id commit;      /* under which it holds. Compare it with one that you trust: anybody can make a commit of his own */
  pd_id tree;        /* of the commit */
  pd_bytes key;      /* not for descent. Bytes as they are: they may be no UTF-8 */
  pd_id value_id;    /* PD_PROOF_VALUE and PD_PROOF_VALUE_ID */
  pd_bytes value;    /* PD_PROOF_VALUE */
  pd_id ancestor;    /* descent */
  uint64_t distance; /* descent: commits from `commit` back to `ancestor` */
} pd_proof;

/* What it ought to show. Zero-initialise: what is left out is not compared. */
typedef struct pd_proof_expect {
  const pd_id *commit;
  const pd_id *ancestor; /* only a proof of descent will do */
  pd_bytes key;          /* only a proof of a key will do */
} pd_proof_expect;

/* Show what `key` is at `at`: a value, in full or (`with_value` false) by its id, or nothing. The proof replaces what `out` holds. It
 * has a few hundred bytes to some kilobytes, more if keys are long, and the value. PD_ERASED if the bytes are gone (its id can still
 * be shown), PD_LIMIT if the value is too large for a proof, PD_NOT_FOUND or PD_RETIRED for the point in history. */
PD_API PD_MUST_USE pd_code pd_prove(pd_store *store, const char *at, pd_bytes key, bool with_value, pd_buf *out, pd_error *err);

/* Show that the commit at `at` descends from the one at `ancestor`: the commits along a shortest way between them, 66 bytes each and 32
 * more for each further parent. PD_NOT_FOUND if it does not; PD_LIMIT over PD_DESCENT_MAX commits, or after a million were looked at. */
PD_API PD_MUST_USE pd_code pd_prove_descent(pd_store *store, const char *ancestor, const char *at, pd_buf *out, pd_error *err);

/* Check a proof; needs no store. `expect` may be NULL: then look at `out->commit` yourself. PD_CORRUPT says what is wrong with it: any
 * change of a byte is found. PD_CONFLICT if it shows something else than expected. PD_FORMAT, PD_LIMIT. Allocates nothing. */
PD_API PD_MUST_USE pd_code pd_check_proof(pd_bytes proof, const pd_proof_expect *expect, pd_proof *out, pd_error *err);

/* ---- the key of a home ------------------------------------------------------------------------------------------- */

#define PD_PUBLIC_KEY_SIZE 32
#define PD_PUBLIC_KEY_TEXT_SIZE 45 /* base64 and a NUL */

typedef struct pd_public_key {
  uint8_t bytes[PD_PUBLIC_KEY_SIZE];
} pd_public_key;

typedef struct pd_sign_key pd_sign_key;

/* Make the Ed25519 key of the home at `uri`: the file perdure.key in its folder, PEM (PKCS 8), mode 0600. PD_EXISTS if there is one: it is
 * left alone. PD_NOT_FOUND if there is no such home, PD_UNSUPPORTED for homes without a folder (memory:). */
PD_API PD_MUST_USE pd_code pd_sign_key_make(const char *uri, pd_error *err);
/* Read it. PD_NOT_FOUND; PD_INVALID if others may read the file, or if it holds no Ed25519 key. Pair with pd_sign_key_free. */
PD_API PD_MUST_USE pd_code pd_sign_key_open(const char *uri, pd_sign_key **out, pd_error *err);
PD_API void pd_sign_key_free(pd_sign_key *key); /* takes NULL */
PD_API pd_public_key pd_sign_key_public(const pd_sign_key *key);

/* The public key in base64; returns `out`. */
PD_API char *pd_public_key_text(const pd_public_key *key, char out[PD_PUBLIC_KEY_TEXT_SIZE]);
/* The public key as PEM (SubjectPublicKeyInfo), as openssl takes it; replaces what `out` holds. */
PD_API PD_MUST_USE pd_code pd_public_key_pem(const pd_public_key *key, pd_buf *out, pd_error *err);
/* From base64 or PEM; white space around it does not matter. PD_INVALID. */
PD_API PD_MUST_USE pd_code pd_public_key_parse(pd_bytes text, pd_public_key *out, pd_error *err);

/* ---- signed heads ------------------------------------------------------------------------------------------------ */

#define PD_SIGNED_HEAD_SIZE_MAX 2048

typedef struct pd_signed_head {
  char agent[PD_NAME_SIZE_MAX + 1];
  char ref[PD_REF_SIZE_MAX + 1]; /* that was at the commit; "": the commit was named otherwise */
  pd_id commit;
  uint64_t seq; /* the last record of the log when it was signed */
  pd_id audit;  /* of that record: it covers the whole log until there */
  int64_t time_ms;
  pd_public_key key;
} pd_signed_head;

/* Sign the commit at `at`, and where the log ends. The document, one line with a newline, replaces what `out` holds. With `keep` a copy is
 * put into the store, under the hidden ref, for pd_verify_heads. */
PD_API PD_MUST_USE pd_code pd_sign_head(pd_store *store, const pd_sign_key *key, const char *at, bool keep, pd_buf *out, pd_error *err);

/* Check a document; needs no store. `key` may be NULL: then look at `out->key` yourself. PD_CORRUPT if it is not exactly what was signed,
 * PD_CONFLICT if another key signed it. */
PD_API PD_MUST_USE pd_code pd_check_signed_head(pd_bytes document, const pd_public_key *key, pd_signed_head *out, pd_error *err);

/* Does the store still have what was signed: the record with that audit id, the commit, and the ref at it? PD_CONFLICT if it is another
 * agent's; PD_CORRUPT says what was changed. That the audit chain holds until there is for pd_verify. */
PD_API PD_MUST_USE pd_code pd_verify_head(pd_store *store, const pd_signed_head *head, pd_error *err);

typedef struct pd_heads_report {
  uint64_t heads;    /* kept in the store */
  uint64_t retired;  /* of them, no longer to be compared: retention took the records */
  uint64_t findings; /* of them, not signed with the key, or not true of this store */
} pd_heads_report;

/* pd_check_signed_head and pd_verify_head for every signed head that the store keeps. `finding` (may be NULL) gets one line each.
 * PD_CORRUPT if there was one; `out` (may be NULL) is written then too. Who can change the store can remove what it keeps: compare
 * with signed heads that are kept elsewhere. */
PD_API PD_MUST_USE pd_code pd_verify_heads(pd_store *store, const pd_public_key *key, void (*finding)(void *ctx, const char *what),
                                           void *ctx, pd_heads_report *out, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
