/* fixture_main.c: mcp_fixture FOLDER: the server with the conformance suite's fixtures behind /mcp. Prints its address, then serves. */
#include "wire/mcp/fixture.h"
#include "wire/serve.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
  char uri[4096];
  pd_error err = {0};
  pd_server *server = NULL;
  if (argc != 2) return 2;
  snprintf(uri, sizeof uri, "sqlite:%s", argv[1]);
  pd_serve_options options = {.uri = uri, .listen = "127.0.0.1:0", .no_auth = true, .mcp_provider = &fixture};
  pd_code code = pd_server_open(&options, &server, &err);
  if (!code) {
    printf("%s\n", pd_server_address(server, 0));
    fflush(stdout);
    code = pd_server_run(server, &err);
  }
  if (!code) code = pd_server_close(server, &err);
  if (code) fprintf(stderr, "mcp_fixture: %s\n", err.message);
  return code != PD_OK;
}
