/* patched.h: docs and patches from texts, for the tests of this room. */
#ifndef PD_TESTS_THREAD_PATCHED_H
#define PD_TESTS_THREAD_PATCHED_H

#include "base/base.h"
#include "base/buf.h"
#include "thread/patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline pd_json parsed(const char *text)
{
  pd_json out;
  pd_error err;
  if (pd_json_parse(pd_text(text), &out, &err)) fail_msg("%s: %s", text, err.message);
  return out;
}

static inline pd_doc *doc_of(const char *text)
{
  pd_doc *doc;
  pd_error err;
  if (pd_doc_new(parsed(text), 0, &doc, &err)) fail_msg("%s: %s", text, err.message);
  return doc;
}

/* The canonical text, with a NUL behind it. Free it. */
static inline char *text_of(const pd_doc *doc)
{
  pd_buf out = {0};
  assert_int_equal(pd_doc_write(doc, &out, NULL), PD_OK);
  assert_int_equal(out.size, pd_doc_size(doc));
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  return (char *)out.data;
}

static inline void doc_is(const pd_doc *doc, const char *expected)
{
  char *text = text_of(doc);
  assert_string_equal(text, expected);
  free(text);
}

/* Parse and apply. On failure the message is in err. */
static inline pd_code patched(pd_doc *doc, const char *patches, pd_touched *touched, pd_error *err)
{
  pd_patches *list;
  TRY(pd_patches_parse(parsed(patches), &list, err));
  pd_code code = pd_patches_apply(list, doc, touched, err);
  pd_patches_free(list);
  return code;
}

/* The touched paths as pointers, a blank between them; "." is the root. */
static inline void touched_is(const pd_touched *touched, const char *expected)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  for (size_t i = 0; i < touched->count; i++) {
    assert_int_equal(pd_buf_append(&out, " ", i ? 1 : 0, NULL), PD_OK);
    if (!touched->paths[i].count) assert_int_equal(pd_buf_byte(&out, '.', NULL), PD_OK);
    assert_int_equal(pd_doc_path_write(touched->paths[i].steps, touched->paths[i].count, &out, NULL), PD_OK);
  }
  assert_int_equal(pd_buf_byte(&out, 0, NULL), PD_OK);
  assert_string_equal((const char *)out.data, expected);
}

#endif
