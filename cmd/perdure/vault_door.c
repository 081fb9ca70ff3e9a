/* vault_door.c: see passphrase.h: passphrases on their way to the vault of the holder. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "door.h"
#include "far_home.h"
#include "passphrase.h"

static pd_code write_line(const char *what, const char *path, const passphrase *pass, pd_buf *line, pd_error *err)
{
  pd_buf text = {0};
  pd_json_writer w = {.out = line, .err = err};
  TRY(pd_buf_reserve(line, 4 * PD_PASSPHRASE_SIZE_MAX + 8192, err)); /* it must not move: an old place would not be wiped */
  pd_code code = pass ? pd_buf_reserve(&text, 2 * PD_PASSPHRASE_SIZE_MAX, err) : PD_OK;
  if (!code && pass) code = pd_base64_encode(pass->text, &text, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "vault", what);
  if (path) pd_json_put_text(&w, "path", path);
  if (pass) pd_json_put_bytes(&w, "passphrase", pd_buf_bytes(&text));
  pd_json_close(&w, '}');
  if (text.data) explicit_bzero(text.data, text.capacity);
  pd_buf_done(&text);
  return code ? code : w.code;
}

pd_code vault_ask_holder(cli_session *cli, const char *what, const char *path, const passphrase *pass, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf line = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer;
  uint64_t number = 0;
  if (cli->is_remote) return far_vault(cli, what, pass, NULL, NULL, path, err);
  pd_code code = write_line(what, path, pass, &line, err);
  if (!code) code = door_ask_holder(cli, pd_buf_bytes(&line), &out, err);
  if (line.data) explicit_bzero(line.data, line.capacity);
  TRY(code);
  CLEANUP(pd_buf_done) pd_buf message = {0};
  if (pd_json_parse(pd_buf_bytes(&out), &answer, NULL) || !pd_json_u64(pd_json_member(answer, "code"), &number) ||
      number >= PD_CODE_COUNT || pd_json_decode(pd_json_member(answer, "message"), &message, NULL))
    return pd_error_set(err, PD_STORAGE, "the holder's answer makes no sense");
  return number ? pd_error_set(err, (pd_code)number, "%.*s", (int)message.size, (const char *)message.data) : PD_OK;
}
