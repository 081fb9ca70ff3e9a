/* config_test.c: settings from the file and the environment, and with what words wrong ones are refused. */
#include "state/config.h"

#include "base/base.h"
#include "state/home.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A file with this text, in a folder of its own. */
typedef struct config_file {
  char *folder, *path;
} config_file;

static config_file file_new(const char *text)
{
  config_file f = {.folder = temp_folder_new()};
  f.path = text_of("%s/perdure.toml", f.folder);
  FILE *out = fopen(f.path, "w");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
  return f;
}

static void file_free(config_file *f)
{
  temp_folder_free(f->folder);
  free(f->path);
}

static void load(const char *text, pd_config *out)
{
  config_file f = file_new(text);
  pd_error err = {0};
  if (pd_config_load(out, f.folder, NULL, &err)) fail_msg("%s: %s", text, err.message);
  file_free(&f);
}

static void refused(const char *text, const char *message)
{
  config_file f = file_new(text);
  pd_config config = {0};
  pd_error err = {0};
  if (pd_config_load(&config, f.folder, NULL, &err) != PD_INVALID) fail_msg("accepted: %s", text);
  char *where = text_of("%s:", f.path);
  if (strncmp(err.message, where, strlen(where)) != 0) fail_msg("'%s' does not begin with the file", err.message);
  if (!strstr(err.message + strlen(where), message)) fail_msg("%s: '%s' has no '%s'", text, err.message, message);
  free(where);
  pd_config_done(&config);
  file_free(&f);
}

static void config__needs_no_file(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  pd_config config = {0};
  assert_int_equal(pd_config_load(&config, folder, NULL, NULL), PD_OK);
  assert_int_equal(config.session_quota_bytes, 50 << 20);
  assert_int_equal(config.persistent_quota_bytes, 100 << 20);
  assert_int_equal(config.shared_quota_bytes, 500 << 20);
  assert_int_equal(config.persistent_versions, 100);
  assert_int_equal(config.approval_ttl_ms, 3600000);
  assert_null(config.file);
  pd_config_done(&config);
  temp_folder_free(folder);
}

static void config__sizes_times_and_numbers_are_read_as_people_write_them(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    uint64_t number;
  } sizes[] =
    {{"1", 1},          {"\"1\"", 1},   {"50_000", 50000},        {"\"50 MB\"", 50000000},  {"\"50MiB\"", 50 << 20}, {"'64 kib'", 65536},
     {"\"2 K\"", 2048}, {"\"7 B\"", 7}, {"\"1 GB\"", 1000000000}, {"\"1_000 KB\"", 1000000}},
    times[] = {{"0", 0},
               {"500", 500},
               {"\"500ms\"", 500},
               {"\"30s\"", 30000},
               {"\"15 m\"", 900000},
               {"\"1h\"", 3600000},
               {"\"1h 30m\"", 5400000},
               {"\"1h30m\"", 5400000},
               {"\"7d\"", 604800000},
               {"\"1w\"", 604800000},
               {"\"never\"", 0}};
  char text[128];
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    pd_config config = {0};
    snprintf(text, sizeof text, "[session]\nquota = %s\n", sizes[i].text);
    load(text, &config);
    assert_int_equal(config.session_quota_bytes, sizes[i].number);
    pd_config_done(&config);
  }
  for (size_t i = 0; i < COUNT_OF(times); i++) {
    pd_config config = {0};
    snprintf(text, sizeof text, "session.idle = %s\n", times[i].text);
    load(text, &config);
    assert_int_equal(config.session_idle_ms, times[i].number);
    pd_config_done(&config);
  }
}

static void config__forever_is_a_number_of_versions(void **state)
{
  (void)state;
  pd_config config = {0};
  load("[persistent]\nversions = \"forever\"\n[audit]\nkeep = '2w'", &config);
  assert_int_equal(config.persistent_versions, 0);
  assert_int_equal(config.audit_keep_days, 14);
  pd_config_done(&config);
}

static void config__wrong_keys_and_values_are_refused_with_their_line(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {"\n[session]\nqouta = 1", "3: there is no setting 'session.qouta'; the nearest is 'session.quota'"},
    {"[sesion]\n", "1: there is no setting 'sesion'"},
    {"quota = 1", "1: there is no setting 'quota'"},
    {"[[session]]\nquota = 1", "1: [[session]]: there are no arrays of tables"},
    {"[session]\nquota = 0", "2: 'session.quota' is 0; it must be from 1 B to 1 TiB"},
    {"[session]\nquota = -1", "2: 'session.quota' is negative; it must be a size like"},
    {"[session]\nquota = true", "2: 'session.quota' is a boolean"},
    {"[session]\nquota = ['1']", "2: 'session.quota' is an array"},
    {"[session]\nquota = ''", "2: 'session.quota' is ''"},
    {"[session]\nquota = 'MB'", "'session.quota' is 'MB'"},
    {"[session]\nquota = '5 MBs'", "a size like"},
    {"[session]\nquota = '5h'", "a size like"},
    {"[session]\nquota = '1 MB 1 KB'", "a size like"},
    {"[session]\nquota = '1.5 MB'", "a size like"},
    {"[session]\nquota = '99999999999999999999'", "a size like"},
    {"[session]\nquota = '18446744073709551615 TiB'", "a size like"},
    {"[session]\nquota = '2 TiB'", "'session.quota' is 2 TiB; it must be from 1 B to 1 TiB"},
    {"[session]\nquota = 'never'", "a size like"},
    {"[session]\nidle = '1x'", "a time like"},
    {"[session]\nidle = '1h 5'", "a time like"},
    {"[session]\nidle = '-1h'", "a time like"},
    {"[session]\nidle = '11000d'", "it must be from 0 to 3650d"},
    {"[persistent]\nversions = '10k'", "a whole number"},
    {"[audit]\nkeep = '5h'", "a number of days"},
    {"[session]\nquota = 1\nquota = 2", "3: 'session.quota' is there already, on line 2"},
    {"[session]\nquota = 1.5", "2: 'session.quota'"},
    {"[server]\nlisten = 7373", "2: 'server.listen' is an integer; it must be a text"},
    {"[server]\nlisten = ['a']", "2: 'server.listen' is an array; it must be a text"},
    {"[server]\nsocket = true", "2: 'server.socket' is a boolean; it must be a file's path"},
    {"[server]\ninsecure_listen = 1", "2: 'server.insecure_listen' is an integer; it must be true or false"},
    {"[server]\ninsecure_listen = 'yes'", "2: 'server.insecure_listen' is 'yes'; it must be true or false"},
    {"[server]\nlog_level = 'inf'", "2: 'server.log_level' is 'inf'; it must be one of error|warn|info|debug"},
    {"[folders]\nroots = ['data']", "2: 'folders.roots': 'data' is not an absolute path without '..'"},
    {"[folders]\nroots = ['/data', '/data/../x']", "2: 'folders.roots': '/data/../x' is not an absolute path without '..'"},
    {"[folders]\nroots = ['']", "2: 'folders.roots': '' is no item"},
    {"[folders]\nroots = ['/a,b']", "2: 'folders.roots': '/a,b' is no item"},
    {"[folders]\nroots = true", "2: 'folders.roots' is a boolean; it must be a list of absolute folders"},
    {"[server]\nallow_host = [1]", "2: 'server.allow_host' has an integer in it; it must be a list of texts"},
    {"[server]\nallow_host = ['a b']", "2: 'server.allow_host': 'a b' is no item"},
    {"[server]\nallow_host = 'a,,b'", "2: 'server.allow_host': '' is no item"},
    {"[server]\nallow_host = 'a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p'", "2: 'server.allow_host' has more than 15 items"},
    {"[server]\nlisten = \"a\\nb\"", "2: 'server.listen' has a control character"},
    {"[server]\n\ntls_cert = '/c.pem'", "3: 'server.tls_cert' and 'server.tls_key' belong together"},
    {"[server]\ntls_key = '/k.pem'", "2: 'server.tls_key' and 'server.tls_cert' belong together"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) refused(cases[i][0], cases[i][1]);
}

static void config__texts_lists_and_flags_of_a_server_are_read(void **state)
{
  (void)state;
  pd_config config = {0};
  load("[server]\nlisten = '0.0.0.0:1'\ninsecure_listen = true\nmcp_approvals = 'false'\n"
       "allow_host = ['a.example', 'b.example']\nallow_origin = 'https://a.example , https://b.example'\n"
       "log_level = 'debug'\nmcp_tools = ''\n",
       &config);
  assert_string_equal(config.server_listen, "0.0.0.0:1");
  assert_int_equal(config.server_insecure_listen, 1);
  assert_int_equal(config.mcp_approvals, 0);
  assert_string_equal(config.server_allow_host, "a.example,b.example");
  assert_string_equal(config.server_allow_origin, "https://a.example,https://b.example");
  assert_string_equal(config.server_log_level, "debug");
  assert_null(config.server_mcp_tools);
  assert_null(config.server_tls_cert);
  pd_config_done(&config);
}

static void config__roots_of_folders_may_have_blanks_in_their_names(void **state)
{
  (void)state;
  pd_config config = {0};
  load("[folders]\nroots = ['/srv/my data', '/data/']\n", &config);
  assert_string_equal(config.folders_roots, "/srv/my data,/data/");
  pd_config_done(&config);
  load("[folders]\nroots = []\n", &config);
  assert_null(config.folders_roots);
  pd_config_done(&config);
}

static void config__a_relative_path_is_taken_from_the_files_folder(void **state)
{
  (void)state;
  config_file f = file_new("[server]\ntls_cert = 'tls/cert.pem'\ntls_key = '/etc/key.pem'\nsocket = 'not this'\n");
  pd_config config = {0};
  char *cert = text_of("%s/tls/cert.pem", f.folder);
  setenv("PERDURE_SERVER_SOCKET", "run/socket", 1); /* the environment's is the program's own */
  assert_int_equal(pd_config_load(&config, f.folder, NULL, NULL), PD_OK);
  unsetenv("PERDURE_SERVER_SOCKET");
  assert_string_equal(config.server_tls_cert, cert);
  assert_string_equal(config.server_tls_key, "/etc/key.pem");
  assert_string_equal(config.server_socket, "run/socket");
  pd_config_done(&config);
  free(cert);
  file_free(&f);
}

static void config__the_environment_wins_over_the_file(void **state)
{
  (void)state;
  pd_config config = {0};
  setenv("PERDURE_SESSION_QUOTA", "3 MB", 1);
  setenv("PERDURE_STORE_OPEN_MAX", "", 1); /* empty: not set */
  load("[session]\nquota = 5\n[store]\nopen_max = 7", &config);
  assert_int_equal(config.session_quota_bytes, 3000000);
  assert_int_equal(config.store_open_max, 7);
  pd_config_done(&config);
  setenv("PERDURE_SESSION_QUOTA", "lots", 1);
  pd_error err = {0};
  assert_int_equal(pd_config_load(&config, NULL, NULL, &err), PD_INVALID);
  assert_string_equal(err.message,
                      "PERDURE_SESSION_QUOTA: 'session.quota' is 'lots'; it must be a size like 500000, \"64 KiB\" or \"50 MB\"");
  unsetenv("PERDURE_SESSION_QUOTA");
  unsetenv("PERDURE_STORE_OPEN_MAX");
}

static void config__a_named_file_must_be_there(void **state)
{
  (void)state;
  pd_config config = {0};
  pd_error err = {0};
  assert_int_equal(pd_config_load(&config, NULL, "/nowhere/p.toml", &err), PD_NOT_FOUND);
  assert_non_null(strstr(err.message, "/nowhere/p.toml"));
  config_file f = file_new("[session]\nquota = 5");
  assert_int_equal(pd_config_load(&config, NULL, f.path, &err), PD_OK);
  assert_int_equal(config.session_quota_bytes, 5);
  pd_config_done(&config);
  file_free(&f);
}

static void config__every_value_is_written_as_it_can_be_read(void **state)
{
  (void)state;
  static const uint64_t numbers[] = {0,       1,        7,        59,       60,        500,           999,
                                     1000,    1024,     1500,     3600,     60000,     86400,         90061,
                                     3600000, 50000000, 52428800, 86400000, 604800000, 1000000000000, 1099511627776};
  char text[PD_CONFIG_TEXT_SIZE];
  for (size_t i = 0; i < pd_config_item_count; i++)
    for (size_t k = 0; k < COUNT_OF(numbers); k++) {
      const pd_config_item *item = &pd_config_items[i];
      uint64_t again = 99;
      if (pd_config_is_text(item) || (item->unit >= PD_UNIT_FLAG && numbers[k] > item->max)) continue;
      const char *written = pd_config_text(item, numbers[k], text);
      if (!pd_config_parse(item, written, &again) || again != numbers[k]) fail_msg("%llu is '%s'", (unsigned long long)numbers[k], written);
    }
}

typedef struct found {
  const char *name;
  char value[64], origin[512];
} found;

static void find(void *ctx, const pd_config_info *info)
{
  found *f = ctx;
  assert_true(*info->about && *info->when && *info->unit);
  if (strcmp(info->name, f->name) != 0) return;
  snprintf(f->value, sizeof f->value, "%s", info->value);
  snprintf(f->origin, sizeof f->origin, "%s", info->origin);
}

static void config__a_home_tells_what_is_in_force_and_where_from(void **state)
{
  (void)state;
  world w;
  setenv("PERDURE_AUDIT_FLUSH", "1s", 1);
  world_open(&w, "# limits\n[session]\nquota = 2_048 # small\n");
  unsetenv("PERDURE_AUDIT_FLUSH");
  found f = {.name = "session.quota"};
  assert_int_equal(pd_config_each(w.home, find, &f, NULL), PD_OK);
  assert_string_equal(f.value, "2 KiB");
  char *where = text_of("%s/perdure.toml:3", w.folder);
  assert_string_equal(f.origin, where);
  free(where);
  f.name = "audit.flush";
  assert_int_equal(pd_config_each(w.home, find, &f, NULL), PD_OK);
  assert_string_equal(f.value, "1s");
  assert_string_equal(f.origin, "PERDURE_AUDIT_FLUSH");
  f.name = "persistent.versions";
  assert_int_equal(pd_config_each(w.home, find, &f, NULL), PD_OK);
  assert_string_equal(f.value, "100");
  assert_string_equal(f.origin, "default");
  world_close(&w);
}

static void config__a_quota_of_the_file_is_the_quota_of_sessions(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[session]\nquota = \"1 KiB\"\nidle = '10s'\n");
  world_begin_session(&w);
  assert_int_equal(world_callf(&w, "state.session.set", "{\"key\":\"k\",\"value\":\"%01020d\"}", 0), PD_OK);
  assert_int_equal(world_callf(&w, "state.session.set", "{\"key\":\"kk\",\"value\":\"%01020d\"}", 0), PD_QUOTA);
  w.now_ms += 10001;
  world_fails(&w, "state.session.list", "{}", "SessionNotFound", NULL);
  world_close(&w);
}

static void config__a_home_with_a_wrong_file_does_not_open(void **state)
{
  (void)state;
  config_file f = file_new("[session]\nquota = 'much'\n");
  char *uri = text_of("sqlite:%s", f.folder);
  pd_home *home = NULL;
  pd_error err = {0};
  assert_int_equal(pd_home_open(uri, NULL, &home, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "perdure.toml:2: 'session.quota' is 'much'"));
  assert_null(home);
  free(uri);
  file_free(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(config__needs_no_file),
    cmocka_unit_test(config__sizes_times_and_numbers_are_read_as_people_write_them),
    cmocka_unit_test(config__forever_is_a_number_of_versions),
    cmocka_unit_test(config__wrong_keys_and_values_are_refused_with_their_line),
    cmocka_unit_test(config__texts_lists_and_flags_of_a_server_are_read),
    cmocka_unit_test(config__roots_of_folders_may_have_blanks_in_their_names),
    cmocka_unit_test(config__a_relative_path_is_taken_from_the_files_folder),
    cmocka_unit_test(config__the_environment_wins_over_the_file),
    cmocka_unit_test(config__a_named_file_must_be_there),
    cmocka_unit_test(config__every_value_is_written_as_it_can_be_read),
    cmocka_unit_test(config__a_home_tells_what_is_in_force_and_where_from),
    cmocka_unit_test(config__a_quota_of_the_file_is_the_quota_of_sessions),
    cmocka_unit_test(config__a_home_with_a_wrong_file_does_not_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
