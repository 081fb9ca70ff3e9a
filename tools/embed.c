/* embed: NAME FILE OUTPUT: a file as C, so that it is part of the program: NAME and NAME_size. */
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *path)
{
  perror(path);
  exit(1);
}

int main(int argc, char **argv)
{
  if (argc != 4) return fprintf(stderr, "usage: embed NAME FILE OUTPUT\n"), 2;
  FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "w");
  if (!in) fail(argv[2]);
  if (!out) fail(argv[3]);
  fprintf(out, "/* Made by tools/embed.c of %s. */\n#include <stddef.h>\n\n", argv[2]);
  fprintf(out, "extern const unsigned char %s[];\nextern const size_t %s_size;\n\nconst unsigned char %s[] = {", argv[1], argv[1], argv[1]);
  size_t size = 0;
  for (int c; (c = getc(in)) != EOF; size++) fprintf(out, "%s%d,", size % 32 ? "" : "\n", c);
  fprintf(out, "\n};\nconst size_t %s_size = %zu;\n", argv[1], size);
  if (ferror(in)) fail(argv[2]);
  if (fclose(out)) fail(argv[3]);
  fclose(in);
  return 0;
}
