/*
 * curl.h: libcurl, loaded when it is first needed. It brings some twenty libraries with it, which would double the time that every local
 * command takes to start (measured: 7 to 11 ms), and a program that never asks a server runs without it.
 */
#ifndef PD_REMOTE_CURL_H
#define PD_REMOTE_CURL_H

#include <curl/curl.h>
#include <perdure/error.h>

#define PD_CURL_FUNCTIONS(X)                                                                                                               \
  X(global_init)                                                                                                                           \
  X(easy_init)                                                                                                                             \
  X(easy_setopt)                                                                                                                           \
  X(easy_getinfo)                                                                                                                          \
  X(easy_perform)                                                                                                                          \
  X(easy_reset)                                                                                                                            \
  X(easy_cleanup)                                                                                                                          \
  X(easy_strerror)                                                                                                                         \
  X(slist_append)                                                                                                                          \
  X(slist_free_all)                                                                                                                        \
  X(multi_init)                                                                                                                            \
  X(multi_add_handle)                                                                                                                      \
  X(multi_remove_handle)                                                                                                                   \
  X(multi_perform)                                                                                                                         \
  X(multi_poll)                                                                                                                            \
  X(multi_wakeup)                                                                                                                          \
  X(multi_info_read)                                                                                                                       \
  X(multi_cleanup)                                                                                                                         \
  X(url)                                                                                                                                   \
  X(url_set)                                                                                                                               \
  X(url_get)                                                                                                                               \
  X(url_cleanup)                                                                                                                           \
  X(free)

/* libcurl's macros that check types have the functions' names. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define PD_CURL_MEMBER(name) __typeof__(curl_##name) *name;

typedef struct pd_curl {
  PD_CURL_FUNCTIONS(PD_CURL_MEMBER)
} pd_curl;

/* Loaded and set up by the first who asks. PD_UNSUPPORTED if it is not there. Of every other function of the room, those that got so far
 * may use pd_libcurl. */
PD_MUST_USE pd_code pd_curl_load(pd_error *err);
extern pd_curl pd_libcurl;

#endif
