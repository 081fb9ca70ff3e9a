#!/bin/sh
# cli_remote.sh PERDURE MAIN.C: the command line against a server. Every command of main.c's table is run twice, on a home and on a server
# of a home like it, and both have to say the same: standard output, standard error, exit code. What cannot be the same is made so: the
# home's name, times, random ids, and what files take on disk.
. "$(dirname "$0")/tap.sh"
main_c=$(realpath "$2")
umask 077
unset PERDURE_SERVER PERDURE_TOKEN PERDURE_CA PERDURE_SESSION http_proxy https_proxy
export XDG_RUNTIME_DIR="$tmp/run"
mkdir -p "$XDG_RUNTIME_DIR"

pids=
stop_all() {
  for pid in $pids; do kill "$pid" 2>/dev/null; done
  for pid in $pids; do wait "$pid" 2>/dev/null; done
  pids=
}
trap 'stop_all; chmod -R u+rwx "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT

# serve FOLDER ARGS…: a server of FOLDER/home, as `perdure --store sqlite:home` there; $url, $pid
serve() {
  folder=$1
  shift
  mkdir -p "$folder"
  (cd "$folder" && exec "$perdure" --store sqlite:home serve --listen 127.0.0.1:0 "$@" >serve.out 2>serve.err) &
  pid=$!
  pids="$pids $pid"
  for _ in $(seq 200); do
    grep -q http "$folder/serve.out" 2>/dev/null && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  url=$(sed -n 's/.* on \(http.*\)/\1/p' "$folder/serve.out")
}

# what differs by nature, made the same; $1 is the file, $2 the home's name in it
plain() {
  sed -E -e "s|$2|HOME|g" \
    -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z/TIME/g' -e 's/[0-9]{8}T[0-9]{6}Z/TIME/g' \
    -e 's/"(time_ms|made_ms|last_activity|uptime_ms|pid)":[0-9]+/"\1":N/g' \
    -e 's/"audit":"[0-9a-f]{64}"/"audit":"ID"/g' -e 's/apr-TIME-[0-9a-f]{16}/APPROVAL/g' -e 's/s-[0-9a-f]{32}/SESSION/g' -e 's/pd_[0-9a-f]{16}_[0-9a-f]{64}/TOKEN/g' \
    "$1"
}

# same ARGS…: on the home in local/, and on the server of the one in far/
same() {
  covered="$covered $1"
  (cd local && "$perdure" --store sqlite:home $who "$@" >"$tmp/l.out" 2>"$tmp/l.err" <"$input")
  l=$?
  (cd far && "$perdure" --server "$url" --token-file "$token" $who "$@" >"$out" 2>"$err" <"$input")
  code=$?
  plain "$tmp/l.out" sqlite:home >"$tmp/l.out.plain"
  plain "$tmp/l.err" sqlite:home >"$tmp/l.err.plain"
  plain "$out" "$url" | sed 's|sqlite:home|HOME|g' | eval "${filter:-cat}" >"$tmp/r.out.plain"
  plain "$err" "$url" | sed 's|sqlite:home|HOME|g' | eval "${filter:-cat}" >"$tmp/r.err.plain"
  eval "${filter:-cat}" <"$tmp/l.out.plain" >"$tmp/l.out.fit"
  eval "${filter:-cat}" <"$tmp/l.err.plain" >"$tmp/l.err.fit"
  [ "$l" = "$code" ] || bad "$*: exit code $code against the server, $l without"
  cmp -s "$tmp/l.out.fit" "$tmp/r.out.plain" || { bad "$*: another standard output"; diff "$tmp/l.out.fit" "$tmp/r.out.plain" | head -8 | sed 's/^/#   /'; }
  cmp -s "$tmp/l.err.fit" "$tmp/r.err.plain" || { bad "$*: another standard error"; diff "$tmp/l.err.fit" "$tmp/r.err.plain" | head -8 | sed 's/^/#   /'; }
}
same_code() {
  want=$1
  shift
  same "$@"
  want_code "$want"
}
# with what the first argument prints on standard input
same_with() {
  printf '%s' "$1" >"$tmp/input"
  shift
  input=$tmp/input same "$@"
}

# both FOLDERs with a home each, and a server
begin() {
  t "$1"
  stop_all
  mkdir local far
  (cd local && "$perdure" --store sqlite:home --agent seed init -q)
  (cd far && "$perdure" --store sqlite:home --agent seed init -q)
  serve "$PWD/far" --socket "$tmp/$count.sock"
  token=$PWD/token
  (cd far && "$perdure" --store sqlite:home token create --role operator 2>/dev/null) >"$token"
  (cd local && "$perdure" --store sqlite:home token create --role operator >/dev/null 2>&1)
  who=
}
input=/dev/null
filter=
who=
covered=

begin remote__state_and_history_are_the_same
same_code 4 get a
same init
same init
same --json put a 1
same put b '{"x":[1,2]}'
same put a 2 --reason why
same_with 'three' put c -
same_code 3 put a 9 --expect 1
same_code 1 get nope
for c in "get a" "get b --json" "get a --at main~1" "has a" "has nope" "ls" "--json ls" "log" "--json log" "log --graph" "history a" "show" \
  "--json show main~1" "diff main~2 main" "undo" "redo" "reset main~1" "undo" "refs" "fork side" "switch side" "put s 1" "switch main" \
  "--json refs" "merge side" "del c" "del nope" "blame b" "--json blame b"; do
  same $c
done
same_with '{"op":"put","key":"n","value":1}
{"op":"get","key":"n"}
{"op":"commit","ops":[{"op":"put","key":"x","value":1},{"op":"delete","key":"n"}]}
no json
{"op":"get","key":"gone"}
{"op":"call","capability":"state.persistent.get","input":{"key":"x"}}
' batch

begin remote__capabilities_are_the_same
same_code 4 stats
for c in "persistent set k 1" "persistent get k" "--json persistent get k" "persistent get nope" "persistent list" "persistent history k" \
  "shared set m 2" "shared get m" "--json shared list" "call state.persistent.get --key k" "call nope" "capabilities" \
  "--json capabilities state.persistent.get" "queue send main hello" "queue receive" "alerts list" "--agent fresh briefing" \
  "thread list" "mailbox list main" "runs list" "approvals list" "policy list" "agents" "agents --names"; do
  same $c
done

finish
