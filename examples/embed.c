/* embed.c: perdure inside a program. Build: cc embed.c $(pkg-config --cflags --libs perdure) -o embed */
#include <perdure/perdure.h>
#include <stdio.h>

static void say(const char *what, const pd_error *err)
{
  fprintf(stderr, "%s: %s: %s\n", what, pd_code_name(err->code), err->message);
}

static bool print_version(void *ctx, const pd_version_info *v)
{
  (void)ctx;
  printf("version %llu by %s: %llu bytes\n", (unsigned long long)v->entry.version, v->author, (unsigned long long)v->entry.size);
  return true;
}

int main(int argc, char **argv)
{
  pd_store *store = NULL;
  pd_error err;
  if (pd_store_open(argc > 1 ? argv[1] : "sqlite:./.perdure", "main", NULL, &store, &err) != PD_OK) {
    say("open", &err);
    return 4;
  }
  pd_ack first, ack;
  pd_buf value = {0};
  pd_code code = pd_put(store, pd_text("plan"), pd_text("{\"step\":1}"), NULL, &first, &err); /* durable when it returns */
  if (!code) code = pd_put_if(store, pd_text("plan"), pd_text("{\"step\":2}"), first.version, NULL, &ack, &err);
  if (!code) code = pd_get(store, "main~1", pd_text("plan"), &value, NULL, &err); /* one commit ago */
  if (!code) printf("it was %.*s\n", (int)value.size, (const char *)value.data);
  if (!code) code = pd_undo(store, 1, NULL, &ack, &err);
  if (!code) code = pd_history(store, NULL, pd_text("plan"), 1, print_version, NULL, &err);
  if (code) say("work", &err);
  pd_buf_done(&value);
  if (pd_store_close(store, &err) != PD_OK) say("close", &err);
  return code ? 4 : 0;
}
