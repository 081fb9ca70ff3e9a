/* sign.c: `keygen` makes the key of a home, `sign` makes a signed head, and what `verify --key` does. */
#include "sign.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "far_home.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void free_key(pd_sign_key **key)
{
  pd_sign_key_free(*key);
}

/* The key itself stays with a server: `out` is NULL then. `out_public` may be NULL. */
static pd_code open_key(cli_session *cli, pd_sign_key **out, pd_public_key *out_public, pd_error *err)
{
  pd_public_key far;
  pd_code code = cli->is_remote ? far_key(cli, false, &far, err) : pd_sign_key_open(cli->uri, out, err);
  if (!code && out_public) *out_public = cli->is_remote ? far : pd_sign_key_public(*out);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make one with: perdure keygen");
  return code;
}

/* ---- keygen ---- */

static pd_code print_key(cli_session *cli, const pd_public_key *key, bool as_pem, bool is_new, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf pem = {0};
  char text[PD_PUBLIC_KEY_TEXT_SIZE];
  TRY(pd_public_key_pem(key, &pem, err));
  pd_public_key_text(key, text);
  if (!cli->is_json) {
    if (as_pem)
      out_bytes(&cli->out, pd_buf_bytes(&pem));
    else
      out_printf(&cli->out, "%s\n", text);
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "public_key", text);
  pd_json_put_bytes(&w, "pem", pd_buf_bytes(&pem));
  pd_json_put_bool(&w, "created", is_new);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code make_key(cli_session *cli, pd_error *err)
{
  pd_public_key made;
  pd_code code = cli->is_remote ? far_key(cli, true, &made, err) : pd_sign_key_make(cli->uri, err);
  if (code == PD_NOT_FOUND) {
    cli->exit_code = CLI_EXIT_STORAGE;
    snprintf(cli->hint, sizeof cli->hint, "make a store first: perdure init");
  }
  if (code == PD_EXISTS) snprintf(cli->hint, sizeof cli->hint, "print its public half with: perdure keygen --public");
  return code;
}

static pd_code run_keygen(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(free_key) pd_sign_key *key = NULL;
  bool is_new = !args_get(args, "public");
  if (is_new) TRY(make_key(cli, err));
  pd_public_key public_key;
  TRY(open_key(cli, &key, &public_key, err));
  if (is_new) cli_say(cli, "new key in perdure.key; this is its public half, give it to those who shall check:");
  return print_key(cli, &public_key, args_get(args, "pem"), is_new, err);
}

static const args_option keygen_options[] = {
  {"public", 0, NULL, "make none; print the public half of the one that is there"},
  {"pem", 0, NULL, "print it as PEM, as openssl takes it, instead of base64"},
  {0},
};

const cli_command cmd_keygen = {
  .spec = {"keygen", keygen_options, 0, 0, false},
  .group = "care",
  .summary = "Make the home's Ed25519 key for signing heads",
  .usage = "",
  .about = "Makes the key of this home, for all its agents: perdure.key beside the stores, readable by you alone.\n"
           "Prints the public half, which `verify --key` takes. A key that is there is never replaced.",
  .example = "$ perdure keygen > home.pub\n$ perdure keygen --public --pem",
  .run = run_keygen,
};

/* ---- sign ---- */

static pd_code run_sign(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(free_key) pd_sign_key *key = NULL;
  CLEANUP(pd_buf_done) pd_buf document = {0};
  const char *file = args_get(args, "output");
  bool keep = !args_get(args, "no-keep");
  const char *at = args->word_count ? args->words[0] : NULL;
  TRY(open_key(cli, &key, NULL, err));
  TRY(engine_open(cli, keep ? CLI_WRITE : CLI_READ, err));
  TRY(cli->is_remote ? far_sign(cli, at, keep, &document, err) : pd_sign_head(cli->store, key, at, keep, &document, err));
  if (file)
    TRY(cli_file_write(file, pd_buf_bytes(&document), err));
  else
    out_bytes(&cli->out, pd_buf_bytes(&document));
  return PD_OK;
}

static const args_option sign_command_options[] = {
  {"output", 'o', "FILE", "write the signed head to this file"},
  {"no-keep", 0, NULL, "keep no copy in the store"},
  {0},
};

const cli_command cmd_sign = {
  .spec = {"sign", sign_command_options, 0, 1, false},
  .group = "care",
  .summary = "Sign where history stands",
  .usage = "[X]",
  .about = "Makes a signed head: one line of JSON that says which commit the ref (or the point X) is at, which record\n"
           "the log ends with and its audit id, which covers the whole log; signed with the home's key (keygen).\n"
           "A copy is kept in the store. Keep another elsewhere: `verify --key KEY --head FILE` then shows whether\n"
           "anything of the history until there was changed.",
  .example = "$ perdure sign -o monday.json\n$ perdure verify --key home.pub --head monday.json",
  .run = run_sign,
};

/* ---- verify --key ---- */

/* A key as typed: its text, or a file that has it. */
static pd_code read_key(const char *text, pd_public_key *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf content = {0};
  if (pd_public_key_parse(pd_text(text), out, NULL) == PD_OK) return PD_OK;
  if (access(text, F_OK) != 0) return pd_error_set(err, PD_INVALID, "--key '%.200s' is neither a public key in base64 nor a file", text);
  TRY(cli_file_read(text, "key", &content, err));
  return pd_public_key_parse(pd_buf_bytes(&content), out, err);
}

pd_code sign_options(const args_parsed *args, sign_report *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  const char *key = args_get(args, "key"), *head = args_get(args, "head");
  if (head && !key) return pd_error_set(err, PD_INVALID, "--head needs --key: whose signature should it be?");
  if (!key) return PD_OK;
  out->is_wanted = true;
  TRY(read_key(key, &out->key, err));
  if (!head) return PD_OK;
  TRY(cli_file_read(head, "signed head", &document, err));
  out->head_code = pd_check_signed_head(pd_buf_bytes(&document), &out->key, &out->head, &out->head_error);
  out->has_head = true;
  return PD_OK;
}

pd_code sign_verify(cli_session *cli, sign_report *report, void (*finding)(void *ctx, const char *what), void *ctx, pd_error *err)
{
  pd_heads_report kept = {0};
  pd_error why;
  if (!report->is_wanted) return PD_OK;
  pd_code code = pd_verify_heads(cli->store, &report->key, finding, ctx, &kept, &why);
  if (code && !(code == PD_CORRUPT && kept.findings)) {
    *err = why;
    return code;
  }
  report->heads = kept.heads;
  report->retired = kept.retired;
  report->findings = kept.findings;
  if (!report->has_head) return PD_OK;
  code = report->head_code;
  if (code) why = report->head_error;
  if (!code) code = pd_verify_head(cli->store, &report->head, &why);
  report->heads++;
  report->retired += code == PD_RETIRED;
  if (!code || code == PD_RETIRED) return PD_OK;
  if (code != PD_CORRUPT && code != PD_CONFLICT && code != PD_FORMAT && code != PD_LIMIT) {
    *err = why;
    return code;
  }
  report->findings++;
  finding(ctx, why.message);
  return PD_OK;
}

void sign_report_print(out_stream *o, const sign_report *report)
{
  if (!report->is_wanted) return;
  out_printf(o, "%-10s %12" PRIu64, "signed", report->heads);
  if (report->retired) out_printf(o, "  (%" PRIu64 " of them before what retention kept)", report->retired);
  out_text(o, "\n");
}

void sign_report_json(pd_json_writer *w, const sign_report *report)
{
  if (!report->is_wanted) return;
  pd_json_put_number(w, "signed_heads", report->heads);
  pd_json_put_number(w, "signed_heads_retired", report->retired);
}
