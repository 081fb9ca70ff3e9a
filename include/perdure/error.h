/*
 * error.h: the one shape of every failure in perdure.
 *
 * A fallible function returns a pd_code (0 is ok) and takes a `pd_error *err` last. `err` may be NULL. It is held by the
 * caller: there is no global and no thread-local. It is written only on failure, once, where the fault was found.
 */
#ifndef PERDURE_ERROR_H
#define PERDURE_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PD_API __attribute__((visibility("default")))
#define PD_MUST_USE __attribute__((warn_unused_result))
#define PD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PD_API
#define PD_MUST_USE
#define PD_PRINTF(fmt, args)
#endif

/* What went wrong. Numbers are part of the ABI and never change meaning. */
typedef enum pd_code {
  PD_OK = 0,
  PD_NOT_FOUND = 1,        /* the named key, commit, ref or store does not exist                     */
  PD_CONFLICT = 2,         /* a version, head or sequence number is not the expected one             */
  PD_EXISTS = 3,           /* the thing to create is there already                                   */
  PD_INVALID = 4,          /* an argument is malformed: key, ref name, URI, option                   */
  PD_AMBIGUOUS = 5,        /* a short commit id fits more than one commit                            */
  PD_LIMIT = 6,            /* an input is larger than its limit                                      */
  PD_QUOTA = 7,            /* a quota would be exceeded                                              */
  PD_CORRUPT = 8,          /* stored bytes do not match their id or checksum, or are missing         */
  PD_STORAGE = 9,          /* the operating system or the backend refused a read or a write          */
  PD_FULL = 10,            /* no space left where the store lives                                    */
  PD_READ_ONLY = 11,       /* the store was opened, or lies on a medium that is, read-only           */
  PD_FORMAT = 12,          /* not a perdure store, or written by a newer perdure                     */
  PD_NO_MEMORY = 13,       /* an allocation failed                                                   */
  PD_UNSUPPORTED = 14,     /* this backend has no such operation                                     */
  PD_ERASED = 15,          /* the value's bytes were erased; its id is still known                   */
  PD_RETIRED = 16,         /* the commit or version was removed by retention (gc)                    */
  PD_SESSION = 17,         /* the session does not exist or has ended                                */
  PD_LOCKED = 18,          /* the vault is locked                                                    */
  PD_APPROVAL = 19,        /* an operator has to approve the call first                              */
  PD_DENIED = 20,          /* who calls may not do this: blocked, denied, expired, or not the operator */
  PD_DECRYPT = 21,         /* wrong key, or a damaged backup                                         */
  PD_OUTCOME_UNKNOWN = 22, /* a write failed, and it may be there later: read before it is repeated    */
  PD_CODE_COUNT
} pd_code;

/* Who can do something about it. */
typedef enum pd_class {
  PD_CLASS_OK = 0,
  PD_CLASS_RETRY = 1,  /* read again, then try again                                             */
  PD_CLASS_CALLER = 2, /* the call is wrong; the same call will fail again                       */
  PD_CLASS_STATE = 3,  /* the call is fine, the store's state does not allow it                  */
  PD_CLASS_HOST = 4,   /* disk, memory, permissions                                              */
  PD_CLASS_BUG = 5
} pd_class;

/* A hint for the reader of an error: an action in one word and a sentence. Static storage. */
typedef struct pd_recovery {
  const char *action;
  const char *hint;
} pd_recovery;

#define PD_ERROR_MESSAGE_MAX 512

typedef struct pd_error {
  pd_code code;
  char message[PD_ERROR_MESSAGE_MAX]; /* one line that names the thing, always terminated        */
  uint64_t expected;                  /* PD_CONFLICT: the version or sequence number asked for; PD_QUOTA: the limit */
  uint64_t actual;                    /* PD_CONFLICT: the one that is there; PD_QUOTA: what is used */
  const char *name;                   /* what users see, if it is more exact than the code's; else NULL. Static storage */
} pd_error;

/* The name that users see, e.g. "VersionConflict"; "Unknown" for a number that is no code. Static storage. */
PD_API const char *pd_code_name(pd_code code);
/* err->name, or its code's name: "KeyNotFound". Static storage. */
PD_API const char *pd_error_name(const pd_error *err);
PD_API pd_class pd_code_class(pd_code code);
PD_API const char *pd_class_name(pd_class class_);
/* Recovery hints for a code: an array that ends with {NULL, NULL}; never NULL. Static storage. */
PD_API const pd_recovery *pd_code_recovery(pd_code code);
/* The same for an error: by its name if that has hints of its own (AgentFenced: stop), else by its code. */
PD_API const pd_recovery *pd_error_recovery(const pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
