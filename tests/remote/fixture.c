/*
 * fixture.c: `perdure serve`, as far as the contract suite needs it: a server that trusts its clients with records. The suite appends bytes
 * that are none, and the real server refuses them (K2 of src/wire/stores.h), which remote_test.c shows on the real one.
 *
 * Called as the real one is: fixture serve --home FOLDER --listen ADDRESS.
 */
#include "wire/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  char *uri = NULL;
  pd_error err = {0};
  pd_server *server = NULL;
  if (argc < 6 || asprintf(&uri, "sqlite:%s", argv[3]) < 0) return 2;
  pd_serve_options options = {
    .uri = uri, .listen = argv[5], .no_auth = true, .trusts_records = true, .log = {.fd = STDERR_FILENO, .level = PD_LOG_WARN}};
  pd_code code = pd_server_open(&options, &server, &err);
  if (!code) {
    printf("fixture serves %s on %s\n", uri, pd_server_address(server, 0));
    fflush(stdout);
    code = pd_server_run(server, &err);
  }
  if (code) fprintf(stderr, "fixture: %s\n", err.message);
  pd_code closed = pd_server_close(server, &err);
  free(uri);
  return code || closed;
}
