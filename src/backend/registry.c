/*
 * registry.c: from a URI to the backend that its scheme names.
 *
 * Place: the door of src/backend. The table only grows, and only before the first open (backend.h), so it has no lock.
 */
#include "backend/builtin.h"
#include "base/base.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define BACKEND_COUNT_MAX 16
#define URI_SIZE_MAX 4096

static const pd_backend_ops *known[BACKEND_COUNT_MAX] = {&pd_memory_ops, &pd_sqlite_ops};
static size_t known_count = 2;

static const pd_backend_ops *find_scheme(const char *scheme, size_t size)
{
  for (size_t i = 0; i < known_count; i++) {
    if (strlen(known[i]->scheme) == size && memcmp(known[i]->scheme, scheme, size) == 0) return known[i];
  }
  return NULL;
}

static bool is_scheme(const char *scheme)
{
  size_t size = strspn(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
  return size > 0 && size <= PD_NAME_SIZE_MAX && scheme[size] == '\0';
}

static bool has_required(const pd_backend_ops *ops)
{
  return ops->open && ops->close && ops->flags && ops->log_append && ops->log_read && ops->log_tail && ops->log_tail_hint && ops->bag_put &&
         ops->bag_get && !ops->log_claim == !ops->log_release && !ops->gc_lock == !ops->gc_unlock;
}

pd_code pd_backend_register(const pd_backend_ops *ops, pd_error *err)
{
  if (!ops) return pd_error_set(err, PD_INVALID, "no backend to register");
  if (ops->abi != PD_BACKEND_ABI) {
    return pd_error_set(err, PD_INVALID, "backend has ABI %u, this perdure knows %u", ops->abi, (unsigned)PD_BACKEND_ABI);
  }
  if (!ops->scheme || !is_scheme(ops->scheme)) {
    return pd_error_set(err, PD_INVALID, "backend scheme '%.80s' is not of a-z 0-9 + - .", ops->scheme ? ops->scheme : "");
  }
  if (!has_required(ops)) return pd_error_set(err, PD_INVALID, "backend '%s' lacks a required function", ops->scheme);
  if (find_scheme(ops->scheme, strlen(ops->scheme))) {
    return pd_error_set(err, PD_EXISTS, "a backend for '%s:' is registered already", ops->scheme);
  }
  if (known_count == BACKEND_COUNT_MAX) {
    return pd_error_set(err, PD_LIMIT, "backend '%s' is one more than the %d that fit", ops->scheme, BACKEND_COUNT_MAX);
  }
  known[known_count++] = ops;
  return PD_OK;
}

/* "memory:, sqlite:" */
static void list_known(char *out, size_t size)
{
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < known_count && used + PD_NAME_SIZE_MAX + 4 < size; i++) {
    used += (size_t)snprintf(out + used, size - used, "%s%s:", i ? ", " : "", known[i]->scheme);
  }
}

pd_code pd_backend_find(const char *uri, const pd_backend_ops **out_ops, const char **out_rest, pd_error *err)
{
  char list[256];
  list_known(list, sizeof list);
  if (!uri || !*uri) return pd_error_set(err, PD_INVALID, "the store's URI is empty (known: %s)", list);
  if (strnlen(uri, URI_SIZE_MAX + 1) > URI_SIZE_MAX) {
    return pd_error_set(err, PD_INVALID, "URI '%.60s...' is longer than %d bytes", uri, URI_SIZE_MAX);
  }
  const char *colon = strchr(uri, ':');
  if (!colon) return pd_error_set(err, PD_INVALID, "URI '%.200s' has no scheme; for a folder write sqlite:DIR (known: %s)", uri, list);
  if (colon == uri) return pd_error_set(err, PD_INVALID, "URI '%.200s' has an empty scheme (known: %s)", uri, list);
  const pd_backend_ops *ops = find_scheme(uri, (size_t)(colon - uri));
  if (!ops) {
    return pd_error_set(err, PD_INVALID, "URI '%.200s' has the unknown scheme '%.*s' (known: %s)", uri,
                        (int)(colon - uri < 60 ? colon - uri : 60), uri, list);
  }
  *out_ops = ops;
  *out_rest = colon + 1;
  return PD_OK;
}
