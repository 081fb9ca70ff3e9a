#!/bin/sh
# cli_gc_kill.sh PERDURE: gc and erase killed at random moments (PERDURE_KILLS times each; 12, and 200 in make torture), and gc while others write: verify is
# clean, nothing kept is lost, and doing it again ends it.
. "$(dirname "$0")/tap.sh"
kills=12
[ "${PERDURE_TORTURE:-}" = full ] && kills=200
kills=${PERDURE_KILLS:-$kills}

ops() {
  awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "{\"op\":\"put\",\"key\":\"k%d\",\"value\":\"v%d-0123456789012345678901234567\"}\n", i % 97, i }'
}

# make a store with a tag in the middle of its history, in ./base
make_base() {
  ops 1200 >ops.jsonl
  "$perdure" batch <ops.jsonl >/dev/null || bad "batch"
  run tag keep main~700
  want_code 0
  kept=$("$perdure" get k5 --at keep)
  mv .perdure base
}

# kill_loop SEED ARGS…: kill it, look, do it again, look
kill_loop() {
  moments=$(awk -v seed="$1" -v n="$kills" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "0.%03d ", 2 + rand() * 45 }')
  shift
  for after in $moments; do
    rm -rf .perdure
    cp -r base .perdure
    timeout -s KILL "$after" "$perdure" "$@" >/dev/null 2>&1
    run verify
    want_code 0
    [ "$("$perdure" get k5 --at keep)" = "$kept" ] || bad "killed after $after s: a kept value is lost"
    run "$@"
    [ "$code" = 0 ] || grep -q 'no value to erase' "$err" || bad "killed after $after s: cannot go on"
    run verify
    want_code 0
  done
}

t cli__gc_killed_at_any_moment_leaves_a_sound_store
make_base
kill_loop 1 gc --keep-last 20 --keep-versions 3 --quiet

t cli__erase_killed_at_any_moment_leaves_a_sound_store
make_base
kill_loop 2 erase k7 --quiet

t cli__gc_runs_while_others_write
ops 1200 >ops.jsonl
run put first 1
"$perdure" batch <ops.jsonl >one 2>&1 &
"$perdure" batch <ops.jsonl >two 2>&1 &
for i in 1 2 3 4; do
  run gc --keep-last 10
  want_code 0
done
wait
want_true sh -c '! grep -q error one two'
run get k5
want_out_has v1169
run verify
want_code 0

finish
