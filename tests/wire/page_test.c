/* page_test.c: the page at / as bytes: what its policy names is what it has, and nothing of the home gets into it as markup. */
#include "base/base64.h"
#include "base/buf.h"
#include "base/sha256.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static reply page;
static char policy[2048];

static int get_page(void **state)
{
  static const char *const args[] = {"--no-auth", NULL};
  served *s = served_start(args);
  page = ask(s, "GET", "/", "", NULL);
  reply_header(&page, "Content-Security-Policy", policy, sizeof policy);
  *state = s;
  return page.status == 200 ? 0 : -1;
}

static int drop_page(void **state)
{
  reply_done(&page);
  served_free(*state);
  return 0;
}

static size_t count_of(const char *text)
{
  size_t count = 0;
  for (const char *at = page.body; (at = strstr(at, text)); at += strlen(text)) count++;
  return count;
}

/* The policy has the hash of what stands between the tags, and there is one such place. */
static void want_hash(const char *begin_tag, const char *end_tag)
{
  pd_buf text = {0};
  assert_int_equal(count_of(begin_tag), 1);
  assert_int_equal(count_of(end_tag), 1);
  const char *begin = strstr(page.body, begin_tag) + strlen(begin_tag);
  pd_id hash = pd_sha256((pd_bytes){begin, (size_t)(strstr(begin, end_tag) - begin)});
  assert_int_equal(pd_buf_printf(&text, NULL, "'sha256-"), PD_OK);
  assert_int_equal(pd_base64_encode((pd_bytes){hash.bytes, sizeof hash.bytes}, &text, NULL), PD_OK);
  assert_int_equal(pd_buf_append(&text, "'", 2, NULL), PD_OK);
  assert_non_null(strstr(policy, (const char *)text.data));
  pd_buf_done(&text);
}

static void page__script_and_style_are_those_that_the_policy_names(void **state)
{
  (void)state;
  want_hash("<script>", "</script>");
  want_hash("<style>", "</style>");
  assert_null(strstr(policy, "unsafe"));
  assert_int_equal(count_of("<script"), 1); /* no other one, with attributes */
}

static void page__puts_nothing_in_as_markup_and_loads_nothing_from_elsewhere(void **state)
{
  (void)state;
  static const char *const never[] = {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",  "eval(",      "new Function",
                                      "DOMParser", "srcdoc",    "javascript:",        "http://",         "https://",   "<iframe",
                                      "@import",   "url(",      "localStorage",       "document.cookie", "postMessage"};
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    if (count_of(never[i])) fail_msg("the page has %s", never[i]);
  regex_t handler;
  assert_int_equal(regcomp(&handler, "<[^>]* on[a-z]+ *=|<[^>]* style *=", REG_EXTENDED | REG_ICASE | REG_NOSUB), 0);
  assert_int_equal(regexec(&handler, page.body, 0, NULL, 0), REG_NOMATCH);
  regfree(&handler);
}

static void page__values_that_look_like_markup_are_never_sent_as_such(void **state)
{
  const served *s = *state;
  char type[64], sniff[32];
  static const char bad[] = "<script>alert('x')</script>\\\"'";
  char *input = text_of("{\"key\":\"%s\",\"value\":\"</pre><img src=x onerror=alert(1)>%s\"}", bad, bad);
  reply r = ask_call(s, "main", "state.persistent.set", input);
  assert_int_equal(r.status, 200);
  reply_done(&r);
  static const char *const paths[] = {"/v1/agents/main/state/%3Cscript%3Ealert('x')%3C%2Fscript%3E%22'", "/v1/agents/main/state",
                                      "/v1/agents/main/log", "/v1/agents/%3Cscript%3E/state", "/%3Cscript%3E"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    r = ask(s, "GET", paths[i], "", NULL);
    assert_int_equal(r.status, i < 3 ? 200 : i == 3 ? 403 : 404);
    assert_string_equal(reply_header(&r, "Content-Type", type, sizeof type), "application/json");
    assert_string_equal(reply_header(&r, "X-Content-Type-Options", sniff, sizeof sniff), "nosniff");
    reply_done(&r);
  }
  free(input);
}

int main(int argc, char **argv)
{
  if (argc < 2) return 2;
  served_binary = argv[1];
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(page__script_and_style_are_those_that_the_policy_names),
    cmocka_unit_test(page__puts_nothing_in_as_markup_and_loads_nothing_from_elsewhere),
    cmocka_unit_test(page__values_that_look_like_markup_are_never_sent_as_such),
  };
  return cmocka_run_group_tests_name("page", tests, get_page, drop_page);
}
