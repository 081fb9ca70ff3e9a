#!/bin/sh
# cli_transfer.sh PERDURE: bundles to and from a server when something goes wrong: client or server killed in the middle (PERDURE_KILLS times; 6, and 60 in
# make torture), damaged or too large bundles, a full disk, two at once, gc meanwhile. Afterwards all is as before or as it shall be, and the next try goes through.
. "$(dirname "$0")/tap.sh"
umask 077
unset PERDURE_SERVER PERDURE_TOKEN PERDURE_REMOTE_TOKEN PERDURE_CA http_proxy https_proxy
export XDG_RUNTIME_DIR="$tmp/run"
mkdir -p "$XDG_RUNTIME_DIR"
kills=6
[ "${PERDURE_TORTURE:-}" = full ] && kills=60
kills=${PERDURE_KILLS:-$kills}

pids=
stop_all() {
  for pid in $pids; do kill "$pid" 2>/dev/null; done
  for pid in $pids; do wait "$pid" 2>/dev/null; done
  pids=
}
trap 'stop_all; chmod -R u+rwx "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT

is_up_or_gone() { grep -q http serve.out || ! kill -0 "$pid" 2>/dev/null; }
# serve [LISTEN]: a server of ./home; $url, $pid
serve() {
  : >serve.out
  "$perdure" --store sqlite:home serve --listen "${1:-127.0.0.1:0}" --no-auth --log-level debug >serve.out 2>>serve.err &
  pid=$!
  pids="$pids $pid"
  until_true is_up_or_gone
  url=$(sed -n 's/.* on \(http.*\)/\1/p' serve.out)
}
begin() {
  t "$1"
  stop_all
  serve
}
far() { run --server "$url" "$@"; }
head_of() { "$perdure" "$@" --json refs | grep -o '"commit":"[0-9a-f]*"' | head -n 1; }
# a store with values that do not pack: $1 KiB in all
make_here() {
  i=0
  while [ "$i" -lt 8 ]; do
    head -c "$(($1 * 128))" /dev/urandom >bytes
    run --store sqlite:here put "k$i" @bytes
    want_code 0
    i=$((i + 1))
  done
}
moments() { awk -v seed="$1" -v n="$kills" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "0.%03d ", 4 + rand() * 250 }'; }

begin transfer__a_push_whose_client_is_killed_is_done_again_at_once
make_here 24000
for after in $(moments 1); do
  timeout -s KILL "$after" "$perdure" --store sqlite:here push --remote "$url" >/dev/null 2>&1
  timeout -s KILL "$after" "$perdure" --store sqlite:here push --remote "$url" >/dev/null 2>&1
done
far init -q
before=$(head_of --server "$url")
[ "$before" = "$(head_of --store sqlite:here)" ] || [ "$(far log --oneline >/dev/null; wc -l <"$out")" = 0 ] || bad "a part of a push is seen: $before"
run --store sqlite:here push --remote "$url"
want_code 0
[ "$(head_of --server "$url")" = "$(head_of --store sqlite:here)" ] || bad "the heads differ"
far verify
want_code 0
far doctor
want_true [ "$code" -le 1 ]
want_true [ -z "$(find home -name 'bundle.*')" ]

begin transfer__a_clone_whose_client_is_killed_is_done_again
make_here 12000
far init -q
run --store sqlite:here push --remote "$url"
want_code 0
for after in $(moments 2); do
  timeout -s KILL "$after" "$perdure" clone "$url" copy >/dev/null 2>&1
done
rm -rf copy
run clone "$url" copy
want_code 0
run --store copy verify
want_code 0
[ "$(head_of --store copy)" = "$(head_of --store sqlite:here)" ] || bad "the heads differ"

begin transfer__a_server_that_is_killed_is_an_error_and_the_next_push_goes_through
make_here 24000
far init -q
listen=${url#http://}
for after in $(moments 3); do
  "$perdure" --store sqlite:here push --remote "$url" >"$out" 2>"$err" &
  client=$!
  sleep "$after" # a moment like any other: nothing is waited for
  kill -KILL "$pid"
  wait "$pid" 2>/dev/null
  wait "$client"
  code=$?
  case "$code" in 0 | 4) ;; *) bad "exit code $code" ;; esac
  pids=
  run --store sqlite:home verify
  want_code 0
  serve "$listen"
done
run --store sqlite:here push --remote "$url"
want_code 0
far verify
want_code 0

begin transfer__gc_by_itself_takes_nothing_of_an_import
far init -q
for s in "gc.keep-last 5" "gc.auto on"; do
  far settings $s
  want_code 0
done
awk 'BEGIN { for (i = 1; i <= 6000; i++) printf "{\"op\":\"put\",\"key\":\"k%d\",\"value\":\"v%d\"}\n", i % 50, i }' >ops
"$perdure" --store sqlite:here batch <ops >/dev/null 2>&1
"$perdure" --server "$url" batch <ops >/dev/null 2>"$err" &
writer=$!
run --store sqlite:here push --remote "$url" main
case "$code" in 0 | 3) ;; *) bad "exit code $code" ;; esac # the other writer may have been first
wait $writer
run --store sqlite:here fork theirs
run --store sqlite:here push theirs
want_code 0
far gc --auto
want_code 0
far verify
want_code 0
far get k7 --at theirs
want_out '"v5957"'

begin transfer__a_damaged_bundle_changes_nothing
make_here 1000
run --store sqlite:here export --all all.bundle
far init -q
far put mine 1
before=$(far --json log --all; cat "$out")
size=$(wc -c <all.bundle)
for at in 0 9 $((size / 3)) $((size / 2)) $((size - 3)); do
  cp all.bundle bad.bundle
  byte=$(dd if=bad.bundle bs=1 skip="$at" count=1 2>/dev/null | od -An -tu1 | tr -d ' ')
  printf "$(printf '\\%03o' $((byte ^ 4)))" | dd of=bad.bundle bs=1 seek="$at" conv=notrunc 2>/dev/null
  far import bad.bundle --as theirs
  want_failure 4 '.'
done
head -c $((size - 1)) all.bundle >bad.bundle
far import bad.bundle --as theirs
want_failure 4 '.'
: >bad.bundle
far import bad.bundle --as theirs
want_failure 4 '.'
far --json log --all
want_true [ "$(cat "$out")" = "$before" ]
far import all.bundle --as theirs
want_code 0
far get k3 --at theirs/main
want_code 0

t transfer__a_bundle_that_is_too_large_is_refused_with_the_limit
stop_all
mkdir -m 700 home
printf '[server]\nbundles_max = "4 MiB"\n' >home/perdure.toml
serve
make_here 3000
far init -q
run --store sqlite:here push --remote "$url"
want_failure 5 'too large; the most is 2097152, half of server.bundles_max'
far refs
want_true [ "$(wc -l <"$out")" = 1 ]
far get k1
want_code 1
run --store sqlite:less put k 1
run --store sqlite:less --agent less push --remote "$url" # nothing of it is held any more
want_failure 4 'no store'
run --store sqlite:less push --remote "$url"
want_code 0
make_here 1500
run --store sqlite:home import /dev/null
cp -r here/main.db home/big.db 2>/dev/null
far --agent big export --all big.bundle
want_failure 5 'half of server.bundles_max'
want_true [ ! -e big.bundle ]

t transfer__a_full_disk_is_told_before_the_bundle_is_sent
stop_all
mkdir -m 700 home
: >serve.out
(ulimit -f 4096 && exec "$perdure" --store sqlite:home serve --listen 127.0.0.1:0 --no-auth >serve.out 2>serve.err) &
pid=$!
pids="$pids $pid"
until_true is_up_or_gone
url=$(sed -n 's/.* on \(http.*\)/\1/p' serve.out)
make_here 6000
far init -q
run --store sqlite:here push --remote "$url"
want_failure 4 'cannot make room for the bundle: File too large'
far put k 1
want_code 0
far verify
want_code 0

begin transfer__of_two_pushes_at_once_one_wins
far init -q
far put base 1
for round in 1 2 3 4; do
  rm -rf one two
  for side in one two; do
    run clone "$url" $side
    want_code 0
    run --store $side put "$side" "$round"
  done
  "$perdure" --store one push >one.out 2>&1 &
  first=$!
  "$perdure" --store two push >two.out 2>&1
  two=$?
  wait $first
  one=$?
  case "$one $two" in
  "0 3") grep -q "'main' has diverged" two.out || bad "$(cat two.out)" ;;
  "3 0") grep -q "'main' has diverged" one.out || bad "$(cat one.out)" ;;
  *) bad "exit codes $one and $two: $(cat one.out two.out)" ;;
  esac
  far verify
  want_code 0
done

begin transfer__values_over_64_megabytes_travel
truncate -s 70M zeros
run --store sqlite:here put z @zeros --value-max 100M
want_code 0
far init -q
run --store sqlite:here push --remote "$url"
want_code 0
run clone "$url" copy
want_code 0
"$perdure" --store copy get z | cmp -s - zeros
want_true [ $? = 0 ]

begin transfer__a_store_that_gc_has_cut_is_cloned_and_pushed_to
i=0
while [ $i -lt 30 ]; do far put k $i; i=$((i + 1)); done
far gc --keep-last 3
want_code 0
run clone "$url" copy
want_code 0
run --store copy put k new
run --store copy push
want_code 0
far get k
want_out new
far put k newer
run --store copy pull
want_code 0
run --store copy get k
want_out newer
run --store copy verify
want_code 0

begin transfer__from_server_to_server
far --agent a put k 1
mkdir other && cd other || exit 1
serve
two=$url
cd ..
url=$(sed -n 's/.* on \(http.*\)/\1/p' serve.out)
run --server "$two" --agent b clone "$url" --remote-agent a
want_code 0
run --server "$two" --agent b put k 2
run --server "$two" --agent b push
want_code 0
far --agent a get k
want_out 2
far --agent a put k 3
run --server "$two" --agent b pull
want_code 0
run --server "$two" --agent b get k
want_out 3
run --server "$url" --agent a push --remote "$url"
want_failure 2 'cannot be brought to itself'

begin transfer__a_thread_goes_to_a_server_and_comes_back
run --store sqlite:here thread create trip
run --store sqlite:here thread append trip --expected-version 0 --messages '[{"id":"m1","role":"user","content":"To Rome!"}]' --reason UserMessage --run-id r1
"$perdure" --store sqlite:here thread export trip >trip.jsonl 2>/dev/null
far thread import trip.jsonl
want_code 0
far thread import trip.jsonl
want_code 3
far thread export trip
want_code 0
cmp -s "$out" trip.jsonl || bad "the lines differ"
far thread export nope
want_code 1

finish
