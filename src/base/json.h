/*
 * json.h: a strict JSON scanner with spans, and a writer (RFC 8259).
 *
 * A put needs to know that a value is valid and where it lies, not a tree of it. So parsing checks the whole text and gives back
 * slices of it: numbers keep their digits, strings their escapes.
 *
 * J1  pd_json_parse accepts exactly the texts of RFC 8259 that are strict UTF-8 and nest at most PD_JSON_DEPTH_MAX deep.
 * J2  Scanning and walking allocate nothing and do not recurse.
 * J3  A pd_json that came from pd_json_parse, or from walking one, is valid JSON without white space around it. The walkers
 *     rely on this and must not be given anything else.
 */
#ifndef PD_BASE_JSON_H
#define PD_BASE_JSON_H

#include <perdure/perdure.h>

#define PD_JSON_DEPTH_MAX 128

typedef enum pd_json_kind {
  PD_JSON_NONE = 0, /* no value: a member that is absent */
  PD_JSON_NULL,
  PD_JSON_BOOL,
  PD_JSON_NUMBER,
  PD_JSON_STRING,
  PD_JSON_ARRAY,
  PD_JSON_OBJECT
} pd_json_kind;

/* A value as a slice of the text that was parsed; borrowed from it. A string's slice has its quotes. */
typedef struct pd_json {
  pd_bytes raw;
  pd_json_kind kind;
} pd_json;

/* "object", "string"…, for messages. Static storage. */
const char *pd_json_kind_name(pd_json_kind kind);

/* ---- reading ---- */

/* Check that `text` is one JSON value with nothing but white space around it. PD_INVALID names the byte and what is wrong there;
 * PD_LIMIT past the depth limit. `out` may be NULL. Escapes of lone surrogates are grammatical, and so pass here. */
PD_MUST_USE pd_code pd_json_parse(pd_bytes text, pd_json *out, pd_error *err);

/* What the scanner has seen by the way. */
typedef struct pd_json_facts {
  unsigned depth;          /* of the deepest array or object; 0: there is none */
  bool has_space;          /* outside of strings, around the value included */
  bool has_escape;         /* a backslash in some string */
  bool is_outer_unordered; /* the value is an object, and a key of it is not greater, by its bytes, than the one before */
  bool is_inner_unordered; /* the same of some object inside */
} pd_json_facts;

/* Do these facts show that no object inside the value has a key twice? Then pd_json_unique need not look at any of them. */
static inline bool pd_json_inside_is_unique(const pd_json_facts *facts)
{
  return !facts->is_inner_unordered && !facts->has_escape;
}

/* The same; `out_facts` may be NULL. */
PD_MUST_USE pd_code pd_json_parse_facts(pd_bytes text, pd_json *out, pd_json_facts *out_facts, pd_error *err);

/* PD_INVALID if any object inside `value` has a key twice (compared after decoding: "a" is "\u0061"). Allocates in proportion
 * to the number of keys; n log n, whatever the keys are. */
PD_MUST_USE pd_code pd_json_unique(pd_json value, pd_error *err);

/* How long each array and object of a value is, in the order in which they begin: who walks at every depth would else pass over the bytes
 * of the deepest once for each depth. */
typedef struct pd_json_span {
  uint32_t size;   /* bytes, with its brackets */
  uint32_t inside; /* how many of them it has, itself included */
} pd_json_span;

/* Those of `value`, in one pass; freed by the caller. NULL and PD_OK if there are none, or they are too large to be counted so. */
PD_MUST_USE pd_code pd_json_spans(pd_json value, pd_json_span **out, pd_error *err);

/* Walk the members of an object or the items of an array; anything else has none. */
typedef struct pd_json_walk {
  const uint8_t *at, *end;
  bool is_object;
  const pd_json_span *spans; /* NULL, or those of a value around it; `next` is that of the next array or object in the container */
  size_t next;
  uint64_t passed; /* bytes of values that were looked at to find their ends */
} pd_json_walk;

pd_json_walk pd_json_walk_begin(pd_json container);
/* The next one; false at the end. `out_key` is a string for members and PD_JSON_NONE for items; it may be NULL. */
bool pd_json_walk_next(pd_json_walk *walk, pd_json *out_key, pd_json *out_value);

/* The first member with this key; PD_JSON_NONE if there is none or `object` is no object. */
pd_json pd_json_member(pd_json object, const char *key);

/* A table of the members that an object may have. */
typedef struct pd_json_field {
  const char *name;
  pd_json value; /* out: PD_JSON_NONE if absent */
} pd_json_field;

/* Fill the table from `object`. PD_INVALID if it is no object, has a member that is not in the table, or one twice. */
PD_MUST_USE pd_code pd_json_fields(pd_json object, pd_json_field *fields, size_t count, pd_error *err);

/* Append a string's bytes, decoded. PD_INVALID if `value` is no string or has a lone surrogate. What was appended before the
 * fault was found is taken back. */
PD_MUST_USE pd_code pd_json_decode(pd_json value, pd_buf *out, pd_error *err);
/* Is it this string, after decoding? */
bool pd_json_is(pd_json value, const char *text);
/* A number without sign, fraction or exponent that fits. */
PD_MUST_USE bool pd_json_u64(pd_json value, uint64_t *out);
/* A number without fraction or exponent that fits. */
PD_MUST_USE bool pd_json_i64(pd_json value, int64_t *out);
/* Of a PD_JSON_BOOL. */
bool pd_json_true(pd_json value);

/* ---- writing ---- */

/* Appends to a buffer, with the commas in place. The first failure sticks in `code` and `err`, and later calls do nothing, so
 * one look at the end is enough. The caller keeps brackets and keys balanced. */
typedef struct pd_json_writer {
  pd_buf *out;
  pd_error *err; /* may be NULL */
  pd_code code;
  bool needs_comma;
} pd_json_writer;

void pd_json_open(pd_json_writer *w, char bracket);  /* '{' or '[' */
void pd_json_close(pd_json_writer *w, char bracket); /* '}' or ']' */
void pd_json_key(pd_json_writer *w, const char *key);
/* A parsed object's key, escaped as it was. */
void pd_json_key_as(pd_json_writer *w, pd_json key);
/* A string. Bytes that are no UTF-8 become U+FFFD: check before, where they matter. */
void pd_json_text(pd_json_writer *w, pd_bytes text);
void pd_json_number(pd_json_writer *w, uint64_t number);
void pd_json_bool(pd_json_writer *w, bool value);
void pd_json_null(pd_json_writer *w);
/* A parsed value as it is, but for the white space outside of its strings: so it stays on one line. */
void pd_json_value(pd_json_writer *w, pd_json value);
/* JSON text that pd_json_value wrote before: on one line already, so it is not looked at again. */
void pd_json_raw(pd_json_writer *w, pd_bytes json);

/* A member to set, or to take out if `json` is empty. */
typedef struct pd_json_change {
  const char *name;
  pd_bytes json; /* on one line already */
} pd_json_change;

/* An object with some members changed: those that are there keep their place, new ones stand behind them in the order given, all others
 * stay as they are. PD_JSON_NONE counts as an object without members. */
PD_MUST_USE pd_code pd_json_change_members(pd_json object, const pd_json_change *changes, size_t count, pd_buf *out, pd_error *err);

/* key and value in one call */
void pd_json_put_text(pd_json_writer *w, const char *key, const char *text);
void pd_json_put_bytes(pd_json_writer *w, const char *key, pd_bytes text);
void pd_json_put_number(pd_json_writer *w, const char *key, uint64_t number);
void pd_json_put_bool(pd_json_writer *w, const char *key, bool value);
/* A text that there is: nothing if it is NULL or "". */
void pd_json_put_said(pd_json_writer *w, const char *key, const char *text);
/* A text, or null if it is empty. */
void pd_json_put_or_null(pd_json_writer *w, const char *key, pd_bytes text);
/* A value that there is: nothing if it is PD_JSON_NONE. */
void pd_json_put_value(pd_json_writer *w, const char *key, pd_json value);
void pd_json_put_id(pd_json_writer *w, const char *key, const pd_id *id);
/* A time as text (pd_time_text); null for 0. */
void pd_json_put_time(pd_json_writer *w, const char *key, int64_t time_ms);

#endif
