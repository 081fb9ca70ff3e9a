#!/bin/sh
# cli_processes.sh PERDURE: several processes on one store; a killed writer.
. "$(dirname "$0")/tap.sh"

# One more, by compare and swap, until it works.
increment() {
  while :; do
    line=$("$perdure" --json get counter 2>/dev/null)
    version=$(printf '%s' "$line" | sed 's/.*"version":\([0-9]*\).*/\1/')
    value=$(printf '%s' "$line" | sed 's/.*"value":\([0-9]*\).*/\1/')
    "$perdure" put counter $((value + 1)) --expect "$version" >/dev/null 2>>"$1"
    status=$?
    [ $status = 3 ] && continue
    return $status
  done
}

t cli__four_processes_count_to_a_hundred
run put counter 0
for p in 1 2 3 4; do
  (i=0; while [ $i -lt 25 ]; do increment "errors$p" || echo "failed $?" >>"broken"; i=$((i + 1)); done) &
done
wait
run get counter
want_out 100
want_true test ! -e broken
if cat errors* 2>/dev/null | grep -i 'locked\|busy' >"$out"; then bad "a lock error was shown"; fi
run verify
want_code 0
run --json get counter
want_out_has '"version":101'

t cli__writers_of_different_keys_do_not_disturb_each_other
for p in 1 2 3; do
  (i=0; while [ $i -lt 20 ]; do echo "{\"op\":\"put\",\"key\":\"w$p-$i\",\"value\":$i}"; i=$((i + 1)); done | "$perdure" batch >"answers$p" 2>&1) &
done
wait
run ls
want_count 60
want_true test "$(cat answers1 answers2 answers3 | grep -c '"ok":true')" = 60
run log --oneline
want_count 60
run verify
want_code 0

t cli__a_reader_sees_what_another_process_wrote
mkfifo in answers
"$perdure" batch <in >answers 2>"$err" &
child=$!
exec 8>in 9<answers
echo '{"op":"put","key":"k","value":"mine"}' >&8
line=$(timeout 60 head -n 1 <&9)
run put k theirs
echo '{"op":"get","key":"k"}' >&8
line=$(timeout 60 head -n 1 <&9)
case $line in *'"text":"theirs"'*) ;; *) : >"$out"; bad "an old value: $line" ;; esac
exec 8>&- 9<&-
wait $child || bad "batch failed"

t cli__a_killed_writer_leaves_every_acknowledged_write
round=0
while [ $round -lt 5 ]; do
  rm -rf .perdure answers in
  mkfifo in
  : >answers
  "$perdure" batch <in >answers 2>"$err" &
  child=$!
  (i=0; while [ $i -lt 5000 ]; do echo "{\"op\":\"put\",\"key\":\"k$i\",\"value\":$i}"; i=$((i + 1)); done >in) 2>/dev/null &
  feeder=$!
  while [ "$(wc -l <answers)" -lt $((round * 40 + 10)) ] && kill -0 $child; do sleep 0.01; done
  kill -9 $child
  wait $child 2>/dev/null
  wait $feeder 2>/dev/null
  "$perdure" ls --tsv >found
  acknowledged=$(grep -c '^{.*"ok":true.*}$' answers)
  i=0
  while [ $i -lt "$acknowledged" ]; do printf 'k%s\t%s\n' $i $i; i=$((i + 1)); done | sort >wanted
  sort found | comm -23 wanted - >lost
  : >"$out"
  [ ! -s lost ] || bad "lost: $(head -3 lost)"
  [ "$(wc -l <found)" -le $((acknowledged + 1)) ] || bad "more than one write was not acknowledged"
  run verify
  want_code 0
  round=$((round + 1))
done

finish
