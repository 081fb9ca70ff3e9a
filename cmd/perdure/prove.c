/* prove.c: `prove` makes a proof of a key or of descent, `check-proof` checks one without any store. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <stdio.h>

static const char *kind_name(pd_proof_kind kind)
{
  static const char *const names[] = {"", "value", "value_id", "absent", "descent"};
  return names[kind];
}

/* ---- prove ---- */

static pd_code print_made_json(cli_session *cli, const pd_proof *shown, const pd_buf *proof, const char *file, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "kind", kind_name(shown->kind));
  pd_json_put_id(&w, "commit", &shown->commit);
  if (shown->kind == PD_PROOF_DESCENT)
    pd_json_put_id(&w, "ancestor", &shown->ancestor);
  else
    pd_json_put_bytes(&w, "key", shown->key);
  pd_json_put_number(&w, "size", proof->size);
  if (file) {
    pd_json_put_text(&w, "file", file);
  } else {
    TRY(pd_base64_encode(pd_buf_bytes(proof), &text, err));
    pd_json_put_bytes(&w, "proof", pd_buf_bytes(&text));
  }
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

/* With -o the proof goes to the file and its commit id to standard output; else the proof itself does. */
static pd_code hand_out(cli_session *cli, const pd_buf *proof, const char *file, pd_error *err)
{
  pd_proof shown;
  char hex[PD_ID_HEX_SIZE];
  TRY(pd_check_proof(pd_buf_bytes(proof), NULL, &shown, err));
  if (file) TRY(cli_file_write(file, pd_buf_bytes(proof), err));
  if (cli->is_json) return print_made_json(cli, &shown, proof, file, err);
  if (!file) {
    out_bytes(&cli->out, pd_buf_bytes(proof));
    return PD_OK;
  }
  out_printf(&cli->out, "%s\n", pd_id_hex(&shown.commit, hex));
  cli_say(cli, "%s: %zu bytes, kind %s", file, proof->size, kind_name(shown.kind));
  return PD_OK;
}

static pd_code check_prove_words(const cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *descends = args_get(args, "descends");
  if (!descends && !args->word_count) return pd_error_set(err, PD_INVALID, "prove what? Give a KEY, or --descends COMMIT");
  if (descends && (args_get(args, "at") || args_get(args, "no-value")))
    return pd_error_set(err, PD_INVALID, "--descends takes no --at and no --no-value: it is about two commits");
  if (!args_get(args, "output") && !cli->is_json && cli->out.is_terminal)
    return pd_error_set(err, PD_INVALID, "a proof is bytes, not text: write it to a file with -o FILE");
  return PD_OK;
}

static pd_code run_prove(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  const char *descends = args_get(args, "descends"), *word = args->word_count ? args->words[0] : NULL;
  TRY(check_prove_words(cli, args, err));
  if (!descends) TRY(pd_key_check(pd_text(word), err));
  TRY(engine_open(cli, CLI_READ, err));
  TRY(engine_prove(cli, descends ? word : args_get(args, "at"), pd_text(descends ? "" : word), !args_get(args, "no-value"), descends,
                   &proof, err));
  return hand_out(cli, &proof, args_get(args, "output"), err);
}

static const args_option prove_options[] = {
  CLI_AT_OPTION,
  {"no-value", 0, NULL, "show the value's id only, not its bytes"},
  {"descends", 0, "A", "show instead that a commit (default: the head) descends from A"},
  {"output", 'o', "FILE", "write the proof to this file"},
  {0},
};

const cli_command cmd_prove = {
  .spec = {"prove", prove_options, 0, 1, false},
  .group = "history",
  .summary = "Make a proof of a key's value or absence, or of descent",
  .usage = "KEY | --descends A [B]",
  .about = "Makes a small file that shows what a key is under a commit, a value or nothing, to anybody who knows\n"
           "the commit's id: no store and no trust needed. Check it with check-proof, or with tools/verify-proof.c,\n"
           "which needs nothing of perdure. With -o the commit id is printed, else the proof itself.\n"
           "--descends A [B] shows that commit B (default: the head) descends from A; the file grows by 66 bytes\n"
           "for each commit between them, at most 100,000.",
  .example = "$ perdure prove plan -o plan.proof\n$ perdure prove plan --at main~3 --no-value -o old.proof\n"
             "$ perdure prove --descends 3f2a9c main -o line.proof",
  .run = run_prove,
};

/* ---- check-proof ---- */

static void print_shown(out_stream *o, const pd_proof *shown)
{
  char hex[PD_ID_HEX_SIZE];
  out_printf(o, "commit %s\n", pd_id_hex(&shown->commit, hex));
  if (shown->kind == PD_PROOF_DESCENT) {
    out_printf(o, "descends from %s\n", pd_id_hex(&shown->ancestor, hex));
    return;
  }
  out_text(o, "key ");
  out_safe(o, shown->key);
  out_text(o, "\n");
  if (shown->kind == PD_PROOF_ABSENT) {
    out_text(o, "absent\n");
    return;
  }
  out_printf(o, "value id %s\n", pd_id_hex(&shown->value_id, hex));
  if (shown->kind != PD_PROOF_VALUE) return;
  out_text(o, "value ");
  out_safe(o, shown->value);
  out_text(o, "\n");
}

static pd_code print_shown_json(cli_session *cli, const pd_proof *shown, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bool(&w, "ok", true);
  pd_json_put_text(&w, "kind", kind_name(shown->kind));
  pd_json_put_id(&w, "commit", &shown->commit);
  pd_json_put_id(&w, "tree", &shown->tree);
  if (shown->kind == PD_PROOF_DESCENT) {
    pd_json_put_id(&w, "ancestor", &shown->ancestor);
    pd_json_put_number(&w, "distance", shown->distance);
  } else {
    pd_json_put_bytes(&w, "key", shown->key);
  }
  if (shown->kind == PD_PROOF_VALUE || shown->kind == PD_PROOF_VALUE_ID) pd_json_put_id(&w, "value_id", &shown->value_id);
  if (shown->kind == PD_PROOF_VALUE) cli_value_json(&w, shown->value);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code take_id(const args_parsed *args, const char *option, pd_id *id, const pd_id **out, pd_error *err)
{
  const char *text = args_get(args, option);
  *out = text ? id : NULL;
  if (!text || pd_id_parse(text, id)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "--%s takes the whole id, 64 digits: without a store nothing shorter is sure", option);
}

static pd_code print_value_alone(cli_session *cli, const pd_proof *shown, pd_error *err)
{
  if (shown->kind != PD_PROOF_VALUE) return pd_error_set(err, PD_NOT_FOUND, "the proof holds, but there is no value in it");
  out_bytes(&cli->out, shown->value);
  return PD_OK;
}

static pd_code run_check_proof(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  pd_id commit, ancestor;
  pd_proof shown;
  pd_proof_expect expect = {0};
  const char *key = args_get(args, "key");
  TRY(take_id(args, "commit", &commit, &expect.commit, err));
  TRY(take_id(args, "ancestor", &ancestor, &expect.ancestor, err));
  if (key) expect.key = pd_text(key);
  if (key && !*key) return pd_error_set(err, PD_INVALID, "--key is empty");
  TRY(cli_file_read(args->words[0], "proof", &proof, err));
  pd_code code = pd_check_proof(pd_buf_bytes(&proof), &expect, &shown, err);
  if (code) {
    cli->exit_code = CLI_EXIT_NEGATIVE; /* it shows nothing, whatever the reason */
    snprintf(cli->hint, sizeof cli->hint, "do not rely on anything in this file; ask for the proof again");
    return code;
  }
  if (args_get(args, "value")) return print_value_alone(cli, &shown, err);
  if (cli->is_json) return print_shown_json(cli, &shown, err);
  print_shown(&cli->out, &shown);
  if (!expect.commit) cli_say(cli, "the proof holds; compare the commit id with one that you trust, or give it with --commit");
  return PD_OK;
}

static const args_option check_proof_options[] = {
  {"commit", 0, "ID", "it must be about this commit: the whole id, from a source that you trust"},
  {"key", 0, "KEY", "it must be about this key"},
  {"ancestor", 0, "ID", "it must show descent from this commit"},
  {"value", 0, NULL, "print the value's bytes and nothing else"},
  {0},
};

const cli_command cmd_check_proof = {
  .spec = {"check-proof", check_proof_options, 1, 1, false},
  .group = "history",
  .summary = "Check a proof; needs no store",
  .usage = "FILE",
  .about = "Checks a proof that `prove` made (FILE may be - for standard input) and prints what it shows: commit,\n"
           "key, value or \"absent\". Exit code 1 if it does not hold, or is about something else than --commit,\n"
           "--key or --ancestor say. A proof says nothing about a commit id that you do not trust: give --commit.",
  .example = "$ perdure check-proof plan.proof --commit 3f2a9c… --key plan\n$ perdure check-proof plan.proof --value",
  .run = run_check_proof,
};
