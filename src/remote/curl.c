/* curl.c: see curl.h. */
#include "remote/curl.h"

#include "base/base.h"
#include "base/error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libcurl.so.4"

pd_curl pd_libcurl;

static char fault[256];

#define LOAD(name)                                                                                                                         \
  *(void **)&pd_libcurl.name = dlsym(library, "curl_" #name);                                                                              \
  if (!pd_libcurl.name) snprintf(fault, sizeof fault, "it has no curl_" #name);

static void load(void)
{
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* for as long as the process lives */
  if (!library) {
    snprintf(fault, sizeof fault, "%s", dlerror());
    return;
  }
  PD_CURL_FUNCTIONS(LOAD)
  if (!*fault && pd_libcurl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) snprintf(fault, sizeof fault, "it cannot be set up");
}

pd_code pd_curl_load(pd_error *err)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (!*fault) return PD_OK;
  return pd_error_set(err, PD_UNSUPPORTED, "a server can only be asked with libcurl (Debian: libcurl4): %s", fault);
}
