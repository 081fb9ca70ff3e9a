#!/bin/sh
# cli_stream.sh: large values by the command line: put @FILE and -, get, what an edit costs, memory.
. "$(dirname "$0")/tap.sh"

# $1 MiB of reproducible noise
noise() { openssl enc -aes-128-ctr -nosalt -pass "pass:${2:-perdure}" -pbkdf2 </dev/zero 2>/dev/null | head -c "$1"; }
sum() { sha256sum "$1" | cut -d' ' -f1; }
# bytes that the store's files take
disk() { cat .perdure/* | wc -c; }
# run a command with all it may have in KiB of address space
within() { (ulimit -v "$1" && shift && "$@"); }
# A sanitizer's binary cannot even start so, and keeps what is freed: then memory is not judged.
is_judged=1
within 150000 "$perdure" version >/dev/null 2>&1 || is_judged=0
[ $is_judged = 1 ] || within() { shift && "$@"; }

t stream__a_large_file_comes_back_by_file_and_by_pipe
noise 5000000 >big
run put file @big
want_id
"$perdure" put pipe - <big >"$out" 2>"$err" || bad "put from a pipe"
"$perdure" get file >got 2>"$err" || bad "get"
want_true cmp -s big got
"$perdure" get pipe | cmp -s - big || bad "what was put from a pipe is another"
run --json get file
want_out_has "\"value_id\":\"$(sum big)\""
run verify
want_code 0

t stream__small_values_are_what_they_were
run_with 'some text' put k -
want_id
run get k
want_out 'some text'
: >empty
run put k @empty
want_id
run get k
want_no_out
want_code 0
head -c 65536 /dev/zero >edge
run put k @edge
"$perdure" get k | cmp -s - edge || bad "64 KiB are another"
printf x >>edge
run put k @edge
"$perdure" get k | cmp -s - edge || bad "64 KiB and a byte are another"

t stream__an_edit_costs_what_was_edited
noise 10000000 >big
run put big @big
run stats
before=$(disk)
for i in 1 2 3 4 5 6 7 8; do
  { head -c "$((i * 1000003))" big; echo "edit $i"; tail -c "+$((i * 1000003 + 51))" big; } >next
  mv next big
  run put big @big
  want_id
done
each=$((($(disk) - before) / 8))
echo "# $each bytes an edit"
[ "$each" -le 65536 ] || bad "an edit costs $each bytes"
"$perdure" get big | cmp -s - big || bad "the newest is another"
run get big --version 3
[ "$(wc -c <"$out")" -gt 9000000 ] || bad "version 3 is not whole"
run verify
want_code 0

t stream__300_megabytes_need_little_memory
noise 1000000 >small
run put warm @small
noise 300000000 >big
want_true within 150000 "$perdure" put big @big --value-max 300M >"$out" 2>"$err"
want_id
within 150000 "$perdure" get big 2>"$err" | sha256sum >got
[ "$(cut -d' ' -f1 got)" = "$(sum big)" ] || bad "what came back is another"
if [ $is_judged = 1 ] && [ -r /proc/self/status ]; then
  "$perdure" get big >/dev/null &
  pid=$!
  high=0
  while grep -q VmHWM "/proc/$pid/status" 2>/dev/null; do
    now=$(awk '/VmHWM/ { print $2 }' "/proc/$pid/status" 2>/dev/null)
    [ "${now:-0}" -gt "$high" ] && high=$now
    sleep 0.02
  done
  wait "$pid" || bad "get failed"
  echo "# $high KiB resident"
  [ "$high" -lt 40000 ] || bad "get took $high KiB"
fi
rm -f big got

t stream__the_limit_is_told_and_can_be_raised
head -c 70000000 /dev/zero >big
run put k @big
want_failure 5 '67108864'
want_err_like '^hint: .*--value-max'
want_true test ! -e .perdure
run put k @big --value-max 70000000
want_id
"$perdure" put k - --value-max 1M <big >"$out" 2>"$err"
code=$?
want_failure 5 'standard input.*1048576'
run get k --version 2
want_code 1
for size in 0 5G 4294967295 x 1MM -1 ''; do
  run put k @big --value-max "$size"
  want_failure 2 'value-max'
done
run put k @big --value-max 4G
want_id

t stream__a_wrong_version_is_refused
noise 3000000 >big
run put k @big --expect 0
want_id
run put k @big --expect 5
want_failure 3 'version 1, expected 5'
run put k @big --expect 1
want_id

t stream__a_reader_that_goes_away_is_no_failure
noise 5000000 >big
run put k @big
"$perdure" get k 2>"$err" | head -c 10 >"$out"
[ "$(wc -c <"$out")" = 10 ] || bad "not ten bytes"
want_no_err

t stream__a_full_disk_is_told
noise 5000000 >big
run put k @big
if [ -e /dev/full ]; then
  "$perdure" get k >/dev/full 2>"$err"
  code=$?
  : >"$out"
  [ "$code" = 4 ] || [ "$code" = 5 ] || bad "exit code $code"
  want_err_like '^perdure: .*standard output'
fi

t stream__killed_in_the_middle_the_old_value_stays
noise 400000 >old
run put k @old
noise 20000000 other >big
mkfifo pipe
"$perdure" put k - <pipe >/dev/null 2>&1 &
pid=$!
{ head -c 15000000 big; kill -9 "$pid"; } >pipe 2>/dev/null
wait "$pid" 2>/dev/null
"$perdure" get k | cmp -s - old || bad "the old value is gone"
run verify
want_code 0
run put k @big
want_id
"$perdure" get k | cmp -s - big || bad "the new value is another"

finish
