/* error.c: names, classes and recovery hints of every error code, and the functions that write an error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HINTS_MAX 3

typedef struct code_info {
  const char *name;
  pd_class class_;
  pd_recovery recovery[HINTS_MAX + 1];
} code_info;

static const code_info infos[PD_CODE_COUNT] = {
  [PD_OK] = {"Ok", PD_CLASS_OK, {{0}}},
  [PD_NOT_FOUND] = {"NotFound", PD_CLASS_STATE, {{"list", "List what is there, and check the name in the message."}}},
  [PD_CONFLICT] = {"VersionConflict", PD_CLASS_RETRY, {{"retry", "Read the current version, apply the change to it, and write again."}}},
  [PD_EXISTS] = {"AlreadyExists", PD_CLASS_STATE, {{"rename", "Choose another name, or remove the one that is there."}}},
  [PD_INVALID] = {"InvalidArgument", PD_CLASS_CALLER, {{"correct", "Correct the argument that the message names."}}},
  [PD_AMBIGUOUS] = {"Ambiguous", PD_CLASS_CALLER, {{"lengthen", "Give more digits of the commit id."}}},
  [PD_LIMIT] = {"LimitExceeded", PD_CLASS_CALLER, {{"split", "Split the input, or raise the limit that the message names."}}},
  [PD_QUOTA] = {"QuotaExceeded", PD_CLASS_STATE, {{"delete_unused", "Remove what is no longer needed."}}},
  [PD_CORRUPT] = {"Corrupt",
                  PD_CLASS_HOST,
                  {{"verify", "Run `perdure verify` to see what is damaged."}, {"restore", "Restore from a backup, then check the disk."}}},
  [PD_STORAGE] = {"StorageError", PD_CLASS_HOST, {{"retry", "Try again; if it persists, check disk and permissions."}}},
  [PD_FULL] = {"DiskFull", PD_CLASS_HOST, {{"free", "Free space where the store lives, then try again; nothing was changed."}}},
  [PD_READ_ONLY] = {"ReadOnly", PD_CLASS_HOST, {{"reopen", "Open the store for writing, on a medium that can be written."}}},
  [PD_FORMAT] = {"UnknownFormat", PD_CLASS_HOST, {{"upgrade", "Check the path, or use a newer perdure."}}},
  [PD_NO_MEMORY] = {"OutOfMemory", PD_CLASS_HOST, {{"retry", "Free memory and try again; nothing was changed."}}},
  [PD_UNSUPPORTED] = {"Unsupported", PD_CLASS_CALLER, {{"choose", "Use a backend that has this operation."}}},
  [PD_ERASED] = {"ValueErased", PD_CLASS_STATE, {{"none", "The bytes were removed on purpose; only the id is kept."}}},
  [PD_RETIRED] = {"Retired",
                  PD_CLASS_STATE,
                  {{"pin", "Retention removed it; tag or pin what must stay, and keep more with `perdure gc`."}}},
  [PD_SESSION] = {"SessionNotFound", PD_CLASS_STATE, {{"reconnect", "Begin a new session with session.begin."}}},
  [PD_LOCKED] = {"VaultLocked", PD_CLASS_STATE, {{"unlock_vault", "Unlock the vault with the master passphrase."}}},
  [PD_APPROVAL] = {"ApprovalRequired", PD_CLASS_STATE, {{"wait", "Ask the operator to approve it, then make the very same call again."}}},
  [PD_DENIED] = {"PermissionDenied", PD_CLASS_CALLER, {{"ask", "Ask the operator; the message says what is not allowed."}}},
  [PD_DECRYPT] = {"DecryptionFailed",
                  PD_CLASS_STATE,
                  {{"check_vault", "Ensure the vault is unlocked with the correct master passphrase."}}},
  [PD_OUTCOME_UNKNOWN] = {"OutcomeUnknown",
                          PD_CLASS_HOST,
                          {{"read", "Read what is there, then repeat the write with the version you expect."},
                           {"check_disk", "Check the disk, and open the store again."}}},
};

/* Names that need other hints than their code: what is true of every VersionConflict is wrong for a process that was taken over. */
typedef struct name_info {
  const char *name;
  pd_recovery recovery[HINTS_MAX + 1];
} name_info;

static const name_info names[] = {
  {"AgentFenced", {{"stop", "Another process opened or deleted the agent. End this one; do not retry."}}},
  {"SnapshotChanged", {{"reload", "Load the snapshot again, apply the change to it, and save that."}}},
  {"StepOutdated", {{"abort", "Abort the step: another process finished the event. Then ask for the next one."}}},
  {"RunActive", {{"wait", "Finish or cancel the run that the message names, then begin this one."}}},
  {"RunExists", {{"attach", "Go on with the run that is there, or begin one with another id."}}},
};

static const code_info *info_of(pd_code code)
{
  static const code_info unknown = {"Unknown", PD_CLASS_BUG, {{0}}};
  return (unsigned)code < PD_CODE_COUNT ? &infos[code] : &unknown;
}

const char *pd_code_name(pd_code code)
{
  return info_of(code)->name;
}

const char *pd_error_name(const pd_error *err)
{
  return err->name ? err->name : pd_code_name(err->code);
}

pd_class pd_code_class(pd_code code)
{
  return info_of(code)->class_;
}

const pd_recovery *pd_code_recovery(pd_code code)
{
  return info_of(code)->recovery;
}

const pd_recovery *pd_error_recovery(const pd_error *err)
{
  for (size_t i = 0; err->name && i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i].name, err->name) == 0) return names[i].recovery;
  return pd_code_recovery(err->code);
}

const char *pd_class_name(pd_class class_)
{
  static const char *const class_names[] = {"ok", "retry", "caller", "state", "host", "bug"};
  return (unsigned)class_ < sizeof class_names / sizeof class_names[0] ? class_names[class_] : "bug";
}

static pd_code set_v(pd_error *err, pd_code code, const char *fmt, va_list args)
{
  if (!err) return code;
  err->code = code;
  err->expected = err->actual = 0;
  err->name = NULL;
  vsnprintf(err->message, sizeof err->message, fmt, args);
  for (char *c = err->message; *c; c++)
    if ((unsigned char)*c < 0x20) *c = ' '; /* one line, whatever a key or path contained */
  return code;
}

pd_code pd_error_set(pd_error *err, pd_code code, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  set_v(err, code, fmt, args);
  va_end(args);
  return code;
}

pd_code pd_error_named(pd_error *err, pd_code code, const char *name, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  set_v(err, code, fmt, args);
  va_end(args);
  if (err) err->name = name;
  return code;
}

pd_code pd_error_conflict(pd_error *err, uint64_t expected, uint64_t actual, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  set_v(err, PD_CONFLICT, fmt, args);
  va_end(args);
  if (err) {
    err->expected = expected;
    err->actual = actual;
  }
  return PD_CONFLICT;
}

pd_code pd_error_memory(pd_error *err, const char *what)
{
  return pd_error_set(err, PD_NO_MEMORY, "out of memory for %s", what);
}
