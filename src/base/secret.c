/* secret.c: see secret.h. */
#include "base/secret.h"

#include "base/error.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

pd_code pd_secret_new(pd_secret *out, size_t size, pd_error *err)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (size + page - 1) / page * page;
  void *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return pd_error_memory(err, "memory for a key");
  if (mlock(at, mapped) != 0) {
    int why = errno;
    munmap(at, mapped);
    return pd_error_set(err, PD_STORAGE, "cannot lock %zu bytes of memory for a key: %s; see `ulimit -l`", mapped, strerror(why));
  }
  /* Both are refused only by kernels that do not know them, and the memory is still locked then. */
  (void)!madvise(at, mapped, MADV_DONTDUMP);
  (void)!madvise(at, mapped, MADV_WIPEONFORK);
  *out = (pd_secret){at, size, mapped};
  return PD_OK;
}

void pd_secret_done(pd_secret *secret)
{
  if (!secret->data) return;
  explicit_bzero(secret->data, secret->mapped);
  munlock(secret->data, secret->mapped);
  munmap(secret->data, secret->mapped);
  *secret = (pd_secret){0};
}
