#!/bin/sh
# cli_bridge.sh PERDURE: `mcp` with --server: standard input and output on this side, a server's /mcp on the other.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/free_port.sh"
umask 077
unset PERDURE_SERVER PERDURE_TOKEN PERDURE_CA PERDURE_SESSION http_proxy https_proxy
export XDG_RUNTIME_DIR="$tmp/run"
mkdir -p "$XDG_RUNTIME_DIR"

server=
bridge=
stop_server() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
  server=
}
trap 'exec 9>&-; [ -z "$bridge" ] || kill "$bridge" 2>/dev/null; stop_server; rm -rf "$tmp"' EXIT

# serve ADDRESS ARGS…: a server of $tmp/home; $url
serve() {
  rm -f "$tmp/serve.out"
  : >"$tmp/serve.out"
  "$perdure" --store "sqlite:$tmp/home" serve --listen "$@" >"$tmp/serve.out" 2>"$tmp/serve.err" 9>&- &
  server=$!
  until_true grep -q ' on http' "$tmp/serve.out"
  url=$(sed -n 's/.* on \(http.*\)/\1/p' "$tmp/serve.out")
}

# begin ARGS…: a bridge whose input is descriptor 9
begin() {
  rm -f pipe
  mkfifo pipe
  "$perdure" --server "$url" "$@" mcp <pipe >"$out" 2>"$err" &
  bridge=$!
  exec 9>pipe
}
say() { printf '%s\n' "$1" >&9; }
heard() { grep -Fq -- "$1" "$out"; }
# end: the input ends; $code
end() {
  exec 9>&-
  wait "$bridge"
  code=$?
  bridge=
}

hello='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
ready='{"jsonrpc":"2.0","method":"notifications/initialized"}'
set_plan() { printf '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"state_persistent_set","arguments":{"key":"plan","value":%s}}}' "$1" "$2"; }
get_plan() { printf '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"state_persistent_get","arguments":{"key":"plan"}}}' "$1"; }
receive='{"jsonrpc":"2.0","id":50,"method":"tools/call","params":{"name":"queue_receive","arguments":{"wait_ms":60000}}}'

serve "127.0.0.1:$(free_port)" # where it has to come back
token=$tmp/token
"$perdure" --store "sqlite:$tmp/home" token create --agent ada 2>/dev/null >"$token"
"$perdure" --store "sqlite:$tmp/home" token create --role operator 2>/dev/null >"$tmp/operator"

t bridge__each_line_is_answered_and_it_ends_with_its_input
printf '%s\n' "$hello" "$ready" "$(set_plan 1 '{"step":1.50}')" '' '{"jsonrpc":"2.0","id":"two","method":"tools/list"}' >lines
"$perdure" --server "$url" --token-file "$token" mcp <lines >"$out" 2>"$err"
code=$?
want_code 0
want_count 3
want_no_err
want_true [ "$(sed 's/.*"id":\([^,]*\),"result".*/\1/' "$out" | sort | tr '\n' ' ')" = '"two" 0 1 ' ] # one that takes long is overtaken
want_out_has '"name":"state_persistent_get"'
get_plan 3 >lines
"$perdure" --server "$url" --token-file "$token" mcp <lines >"$out" 2>"$err"
want_out_has '"structuredContent":{"value":{"step":1.50},"version":1'
run --store "sqlite:$tmp/home" --agent ada persistent get plan
want_out_has '"step":1.50'

t bridge__the_agent_is_the_command_lines_and_the_token_can_be_in_the_environment
printf '%s\n' "$(set_plan 1 '"of bob"')" >lines
PERDURE_TOKEN=$(cat "$tmp/operator") "$perdure" --server "$url" --agent bob mcp <lines >"$out" 2>"$err"
code=$?
want_code 0
want_out_has '"version":1,"previous_version":0'
run --store "sqlite:$tmp/home" --agent bob persistent get plan
want_out_has 'of bob'

t bridge__a_request_without_a_session_or_of_the_stateless_revision_works
meta='"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"state_persistent_set","arguments":{"key":"naïve key","value":7},'"$meta}}" \
  '{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"state://persistent/naïve%20key",'"$meta}}" >lines
"$perdure" --server "$url" --token-file "$token" mcp <lines >"$out" 2>"$err"
code=$?
want_code 0
want_out_like '"id":1,"result".*"version":1'
want_out_like '"id":2,"result".*"text":"7"'

t bridge__what_is_wrong_with_a_line_is_said_and_the_next_one_works
printf '{bad\n%s' '{"jsonrpc":"2.0","id":7,"method":"ping"}' >lines
"$perdure" --server "$url" --token-file "$token" mcp <lines >"$out" 2>"$err"
code=$?
want_code 0
want_out_has '"id":null,"error":{"code":-32700'
want_out_has '"id":7,"result":{}'

t bridge__a_refusal_answers_the_request_that_waits
printf '%s\n' "$(get_plan 5)" '{"jsonrpc":"2.0","id":6,"method":"ping"}' >lines
"$perdure" --server "$url" mcp <lines >"$out" 2>"$err"
want_out_like '"id":5,"error":\{"code":-[0-9]+,"message":".*token'
want_out_like '"id":6,"error"'
want_count 2

t bridge__a_wrong_token_is_told_to_every_request_and_to_the_person
echo pd_0123456789abcdef0123456789abcdef0123456789abcdef >wrong
printf '%s\n' "$hello" "$ready" "$(get_plan 1)" >lines
for given in wrong ''; do
  "$perdure" --server "$url" ${given:+--token-file "$given"} mcp <lines >"$out" 2>"$err"
  code=$?
  want_code 6
  want_count 2
  want_out_like '"id":0,"error":\{"code":-[0-9]+,"message":".*token'
  want_out_like '"id":1,"error"'
  want_err_like '^perdure: .*token'
done

t bridge__a_token_that_is_revoked_is_refused_from_then_on_and_what_was_let_in_was_no_failure
"$perdure" --store "sqlite:$tmp/home" token create --agent ada --label short 2>/dev/null >short
begin --token-file short
say "$hello"
say "$(get_plan 1)"
until_true heard '"id":1,"result"'
"$perdure" --store "sqlite:$tmp/home" token revoke "$("$perdure" --store "sqlite:$tmp/home" token list | awk '/short/ { print $1 }')" >/dev/null 2>&1
refused() {
  say "$(get_plan 2)"
  heard '"id":2,"error"'
}
until_true refused
end
want_code 0

t bridge__a_subscription_is_told_of_what_others_write
begin --token-file "$token"
say "$hello"
say "$ready"
say '{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"state://persistent/plan"}}'
until_true heard '"id":1,"result":{}'
"$perdure" --store "sqlite:$tmp/home" --agent ada persistent set plan 2 >/dev/null
until_true heard '"method":"notifications/resources/updated","params":{"uri":"state://persistent/plan"'
end
want_code 0

t bridge__a_call_that_waits_holds_up_nobody_and_can_be_cancelled
begin --token-file "$token"
say "$hello"
say "$receive"
say '{"jsonrpc":"2.0","id":51,"method":"ping"}'
until_true heard '"id":51,"result":{}'
say "$(get_plan 52)"
until_true heard '"id":52,"result"'
say '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50}}'
end
want_code 0
want_out_unlike '"id":50'

t bridge__a_server_that_comes_back_is_used_again_and_its_notices_too
begin --token-file "$token"
say "$hello"
say "$(set_plan 1 3)"
until_true heard '"id":1,"result"'
stop_server
say "$(get_plan 2)"
until_true heard '"id":2,"error":{"code":-32603,"message":"the server at '"$url does not answer"
serve "${url#http://}"
say "$(get_plan 3)"
until_true heard '"id":3,"result"'
say '{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"state://persistent/plan"}}'
until_true heard '"id":4,"result":{}'
again() {
  "$perdure" --store "sqlite:$tmp/home" --agent ada persistent set plan 4 >/dev/null
  heard 'notifications/resources/updated'
}
until_true again
end
want_code 0

t bridge__a_server_that_never_came_is_a_storage_error_and_every_request_hears_of_it
stop_server
printf '%s\n' "$hello" "$ready" "$(get_plan 1)" >lines
"$perdure" --server "$url" --token-file "$token" mcp <lines >"$out" 2>"$err"
code=$?
want_code 4
want_count 2
want_out_like '"id":0,"error":\{"code":-32603,"message":"the server at '"$url"' does not answer'
want_out_like '"id":1,"error":\{"code":-32603,"message":"the server at '"$url"' does not answer'
want_err_like "^perdure: the server at $url does not answer"

t bridge__what_the_server_decides_is_no_option_here
for option in '--tools queue.*' --approvals --no-approvals '--passphrase-file pass'; do
  run --server "$url" mcp $option
  want_failure 2 "does not work against a server"
done

t bridge__the_lines_that_clients_need_name_the_server_and_no_token
PERDURE_TOKEN=pd_secret run --server "$url" --agent ada mcp --print-config claude
want_code 0
want_out_like '^\{"mcpServers":\{"perdure":\{"command":"/.*","args":\["mcp","--server","'"$url"'","--agent","ada"\]\}\}\}$'
want_out_unlike pd_secret
want_err_like 'PERDURE_TOKEN.*--token-file'
cp "$token" here.token
run --server "$url" --token-file here.token mcp --print-config codex
want_out_like '^args = \["mcp","--server","'"$url"'","--token-file","/.*/here.token"\]$'
want_true [ "$(grep -c PERDURE_TOKEN "$err")" = 0 ]

finish
