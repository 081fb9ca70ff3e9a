#!/bin/sh
# conformance.sh FIXTURE PERDURE FOLDER: the official suite on the server with its fixtures, for both revisions, each required scenario a
# test; and on `perdure serve` itself, the scenarios that need no fixtures. FOLDER is where npm packages are.
set -u
fixture=$(realpath "$1")
perdure=$(realpath "$2")
folder=$3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/perdure-mcp.XXXXXX")
pid=
trap 'if [ -n "$pid" ]; then kill "$pid" 2>/dev/null; wait "$pid"; fi; rm -rf "$tmp"' EXIT
count=0
failures=0

judge() { # OK? NAME
  count=$((count + 1))
  if [ "$1" = 0 ]; then
    echo "ok $count - $2"
  else
    echo "not ok $count - $2"
    failures=$((failures + 1))
  fi
}

finish() {
  echo "1..$count"
  [ "$failures" = 0 ]
  exit
}

node=$(sh "$here/npm.sh" "$3" 2>"$tmp/npm")
if [ -z "$node" ]; then
  sed 's/^/# /' "$tmp/npm"
  judge 1 mcp__the_conformance_suite_is_installed
  finish
fi
suite=$3/node_modules/@modelcontextprotocol/conformance/dist/index.js

# start COMMAND…: its first line of output has the address
start() {
  : >"$tmp/said"
  "$@" >"$tmp/said" 2>"$tmp/err" &
  pid=$!
  for _ in $(seq 600); do
    address=$(grep -o 'http://127.0.0.1:[0-9]*' "$tmp/said" | head -n 1)
    [ -z "$address" ] || return 0
    sleep 0.1
  done
  sed 's/^/# /' "$tmp/err"
}

# stop NAME: it ends by itself when it is told to, with nothing left to say
stop() {
  kill -TERM "$pid"
  wait "$pid"
  judge $? "$1"
  pid=
}

# What a server has to pass for a revision, as the suite has it.
scenarios() { awk '/^[a-z_]+:/ { is_ours = /^server:/ } is_ours && /^ *- / { print $2 }' "$folder/node_modules/@modelcontextprotocol/conformance/requirements/$1.yaml"; }

# run REVISION: into $tmp/out
run() { timeout 300 "$node" "$suite" server --url "$address/mcp" --requirements "$1" >"$tmp/out" 2>&1; }

# want NAME REVISION PREFIX
want() {
  if grep -q "^✓ $1:" "$tmp/out"; then
    judge 0 "mcp__$3_$(echo "$2_$1" | tr - _)"
  else
    sed -n "/Running scenario: $1 /,/Running scenario/p; /^✗ $1:/p" "$tmp/out" | head -n 20 | sed 's/^/# /'
    judge 1 "mcp__$3_$(echo "$2_$1" | tr - _)"
  fi
}

start "$fixture" "$tmp/fixture"
for revision in 2025-11-25 2026-07-28; do
  run "$revision"
  names=$(scenarios "$revision")
  for name in $names; do want "$name" "$revision" fixture; done
done
# 30 scenarios of the old era, 37 of the new: the list is not empty by mistake
[ "$count" = 67 ]
judge $? mcp__all_67_required_scenarios_were_judged
stop mcp__the_fixture_stops_when_it_is_told_to

"$perdure" --store "$tmp/home" persistent set plan 1 >/dev/null
start "$perdure" serve --home "$tmp/home" --listen 127.0.0.1:0 --no-auth
run 2025-11-25
for name in server-initialize server-session-lifecycle logging-set-level ping tools-list server-sse-multiple-streams resources-list prompts-list \
  dns-rebinding-protection; do want "$name" 2025-11-25 serve; done
run 2026-07-28
for name in tools-list server-sse-multiple-streams resources-list sep-2164-resource-not-found prompts-list dns-rebinding-protection caching \
  input-required-result-unsupported-methods http-header-validation; do want "$name" 2026-07-28 serve; done
stop mcp__perdure_serve_stops_when_it_is_told_to
finish
