#!/bin/sh
# cli_mcp.sh PERDURE: `mcp` over standard input and output, and --print-config.
. "$(dirname "$0")/tap.sh"

lines="$tmp/lines"

# run with a file on standard input
run_in() {
  input=$1
  shift
  "$perdure" "$@" <"$input" >"$out" 2>"$err"
  code=$?
}

hello='{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'

# In order while each is quick; a machine that stops for a moment lets others overtake, so that is told in tests/wire/mcp/stdio_test.c
t cli__mcp_answers_one_line_a_request_and_ends_with_its_input
cat > "$lines" <<END
$hello
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"state_persistent_set","arguments":{"key":"plan","value":{"step":1.50}}}}

{"jsonrpc":"2.0","id":"two","method":"ping"}
END
run_in "$lines" mcp
want_code 0
want_count 3
want_out_has '{"jsonrpc":"2.0","id":"two","result":{}}'
want_out_like '^\{"jsonrpc":"2.0","id":0,"result":\{"protocolVersion":"2025-11-25"'
want_out_has '"structuredContent":{"version":1,"previous_version":0}'
printf '%s' '{"jsonrpc":"2.0","id":"get","method":"tools/call","params":{"name":"state.persistent.get","arguments":{"key":"plan"}}}' >"$lines"
run_in "$lines" mcp
want_out_has '{"jsonrpc":"2.0","id":"get","result":{"content":[{"type":"text","text":"{\"value\":{\"step\":1.50}'
run persistent get plan
want_out_has '"step":1.50'

t cli__mcp_serves_the_agent_that_is_named
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"state_persistent_set","arguments":{"key":"mine","value":1}}}' > "$lines"
run_in "$lines" --agent ada mcp
want_code 0
run --agent ada persistent get mine
want_line 1
run persistent get mine
want_code 1

t cli__mcp_lists_only_the_tools_that_the_filter_wants
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' > "$lines"
run_in "$lines" mcp --tools 'state.session.*,queue_send'
want_out_has '"name":"queue_send"'
want_out_has '"name":"state_session_get"'
want_out_unlike 'state_persistent_get","title'
run mcp --tools 'no.such.*'
want_failure 2 "no tool fits"

t cli__mcp_says_what_is_wrong_with_a_line_and_goes_on
printf '{bad\n[1]\n{"jsonrpc":"2.0","id":7,"method":"ping"}' > "$lines"
run_in "$lines" mcp
want_code 0
want_out_has '"id":null,"error":{"code":-32700'
want_out_has '"code":-32600'
want_out_has '{"jsonrpc":"2.0","id":7,"result":{}}'

t cli__mcp_tells_how_to_approve_and_the_same_call_runs_then
run persistent set plan 1
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"history_reset","arguments":{"to":"root"}}}' > "$lines"
run_in "$lines" mcp
want_out_has '\"code\":\"ApprovalRequired\"'
want_out_like 'To approve: perdure approvals approve apr-'
id=$(sed 's/.*To approve: perdure approvals approve \(apr-[^"]*\)".*/\1/' "$out")
run approvals approve "$id"
want_code 0
run_in "$lines" mcp
want_out_unlike ApprovalRequired
want_out_has '"isError":false'

t cli__mcp_prints_the_lines_that_clients_need
run mcp --print-config claude
want_out_like '^\{"mcpServers":\{"perdure":\{"command":"/.*","args":\["mcp","--store","sqlite:/.*","--agent","main"\]\}\}\}$'
run --agent ada mcp --print-config cursor --tools 'state.*'
want_out_has '"--agent","ada","--tools","state.*"]'
run mcp --print-config codex
want_out_like '^\[mcp_servers.perdure\]$'
want_out_like '^args = \["mcp",'
run mcp --print-config vscode
want_out_like '^\{"servers":\{"perdure":\{"type":"stdio",'
run mcp --print-config emacs
want_failure 2 emacs

finish
