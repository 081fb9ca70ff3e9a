/*
 * bind.h: structs from and to JSON objects, by a table of their members: what a document has is said once, for reading and for writing.
 *
 *     static const pd_bind members[] = {
 *       {"name", PD_BIND_TEXT, PD_BIND_AT(thing, name)},
 *       {"made_ms", PD_BIND_MS, PD_BIND_AT(thing, made_ms), .is_optional = true},
 *     };
 *     TRY(pd_bind_read(object, members, COUNT_OF(members), PD_BIND_EXACT, &it, err));
 *     pd_bind_write(&w, members, COUNT_OF(members), &it);
 */
#ifndef PD_BASE_BIND_H
#define PD_BASE_BIND_H

#include "base/json.h"

typedef enum pd_bind_kind {
  PD_BIND_TEXT = 1, /* char[]: a string that fits, without NUL                       empty: "" */
  PD_BIND_TEXTS,    /* char[][stride]: an array of such strings; the rest is ""       empty: the first is "" */
  PD_BIND_BYTES,    /* uint8_t[]: all of them, in base64                              never empty */
  PD_BIND_ID,       /* pd_id: 64 hexadecimal digits                                   empty: zeros */
  PD_BIND_NUMBER,   /* uint32_t or uint64_t                                           empty: 0 */
  PD_BIND_MS,       /* int64_t: milliseconds since 1970, a number, not negative       empty: 0 */
  PD_BIND_TIME,     /* int64_t: the same as text, just as pd_time_text writes it      empty: 0 */
  PD_BIND_BOOL,     /* bool                                                           empty: false */
  PD_BIND_NAME,     /* an enumeration from 0, by `names`, which end with NULL          never empty */
  PD_BIND_JSON,     /* pd_json: any value, borrowed                                   empty: PD_JSON_NONE */
  PD_BIND_STRING,   /* pd_json: a string, borrowed                                    empty: PD_JSON_NONE */
  PD_BIND_KEPT      /* const char *: a string without NUL, in `texts`                 empty: NULL or "" */
} pd_bind_kind;

typedef struct pd_bind {
  const char *name;
  pd_bind_kind kind;
  size_t offset, size;
  bool is_optional; /* may be absent or null when it is read, and stays as it is then; is not written if it is empty */
  bool is_always;   /* of an optional one: it is written nevertheless */
  const char *const *names;
  size_t stride;
} pd_bind;

#define PD_BIND_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

typedef enum pd_bind_mode {
  PD_BIND_LOOSE, /* members that are not in the table are passed over; of one that is there twice the first counts */
  PD_BIND_EXACT, /* both are refused */
  PD_BIND_STRICT /* and null does not stand for a member that is absent */
} pd_bind_mode;

/* PD_INVALID names the member. What was read before the fault was found stays in `out`. */
PD_MUST_USE pd_code pd_bind_read(pd_json object, const pd_bind *table, size_t count, pd_bind_mode mode, void *out, pd_error *err);
/* The same from text that has yet to be parsed. */
PD_MUST_USE pd_code pd_bind_parse(pd_bytes text, const pd_bind *table, size_t count, pd_bind_mode mode, void *out, pd_error *err);

/* The same with members of PD_BIND_KEPT, whose texts are appended to `texts`. Room for all is made first: what was kept there before may
 * move then, unless the caller had made room of object.raw.size bytes. */
PD_MUST_USE pd_code pd_bind_keep(pd_json object, const pd_bind *table, size_t count, pd_bind_mode mode, void *out, pd_buf *texts,
                                 pd_error *err);

/* The members, in the table's order, into an object that is open. */
void pd_bind_write(pd_json_writer *w, const pd_bind *table, size_t count, const void *in);
/* The object as a whole. */
void pd_bind_object(pd_json_writer *w, const pd_bind *table, size_t count, const void *in);

/* One string by itself: false if it is none, does not fit with its NUL, or has a NUL inside. */
PD_MUST_USE bool pd_json_copy_text(pd_json value, char *out, size_t size);
/* One string appended with a NUL behind it, decoded. PD_INVALID if it is not a string or has a NUL inside; nothing is appended then. */
PD_MUST_USE pd_code pd_json_append_text(pd_json value, pd_buf *out, pd_error *err);
/* 64 hexadecimal digits. */
PD_MUST_USE bool pd_json_id(pd_json value, pd_id *out);
/* The first of `names`, which end with NULL, that the string is; -1: none. */
int pd_json_name(pd_json value, const char *const *names);

#endif
