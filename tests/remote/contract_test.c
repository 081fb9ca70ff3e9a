/* contract_test.c: the backend of a server's stores keeps the contract of backend.h, as any other: on a real server (fixture.c). */
#include "contract/backend_contract.h"
#include "remote/remote.h"
#include "wire/server_world.h"

#include <stdio.h>
#include <stdlib.h>

static served *server;

static char *uri_new(void)
{
  char *uri = NULL;
  server = served_start(NULL);
  return asprintf(&uri, "http://127.0.0.1:%d", server->port) < 0 ? NULL : uri;
}

static void uri_destroy(const char *uri)
{
  (void)uri;
  served_free(server);
  server = NULL;
}

int main(int argc, char **argv)
{
  const backend_contract_target target = {
    .name = "remote", .uri_new = uri_new, .uri_destroy = uri_destroy, .is_lasting = true, .is_shareable = true, .has_no_claims = true};
  pd_remote_options options = {0};
  served_binary = argc > 1 ? argv[1] : "perdure";
  if (pd_remote_setup(&options, NULL)) return 1;
  return backend_contract_run(&target, NULL, 0);
}
