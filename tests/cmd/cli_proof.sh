#!/bin/sh
# cli_proof.sh PERDURE VERIFY-PROOF SOURCE: prove, check-proof, keygen, sign, verify --key; and the verifier that knows nothing of perdure.
. "$(dirname "$0")/tap.sh"
verifier=$(realpath "$2")
source=$(realpath "$3")

# What the verifier of its own says about a file must be what perdure says: exit code, and on success every line.
want_agreement() { # FILE
  "$perdure" check-proof "$1" >"$tmp/a" 2>/dev/null
  ours=$?
  "$verifier" "$1" >"$tmp/b" 2>/dev/null
  theirs=$?
  [ "$ours" = "$theirs" ] || bad "perdure answers $ours, the verifier $theirs"
  [ "$ours" != 0 ] || cmp -s "$tmp/a" "$tmp/b" || bad "they print different things"
}

flip() { # FILE OFFSET OUT: one byte changed
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  cp "$1" "$3"
  printf "$(printf '\\%03o' $(((byte + 1) % 256)))" | dd of="$3" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

t verifier__is_under_200_lines_and_needs_nothing
[ "$(wc -l <"$source")" -lt 200 ] || bad "$(wc -l <"$source") lines"
grep '^#include' "$source" | grep -vE '<(stdint|stdio|stdlib|string)\.h>' >includes && bad "it includes more: $(cat includes)"
: >"$out"; : >"$err"
${CC:-cc} -o own "$source" 2>"$err" || bad "it does not compile alone"
want_no_err

t prove__shows_a_value_and_anybody_can_check_it
run put plan '{"step":1}'
run put other 2
id=$(cat "$out")
run prove plan -o plan.proof
want_line "$id"
want_err_like '^plan.proof: [0-9]+ bytes, kind value$'
run check-proof plan.proof --commit "$id" --key plan
want_code 0
want_no_err
want_out "commit $id
key plan
value id $(printf '{"step":1}' | sha256sum | cut -c1-64)
value {\"step\":1}
"
want_agreement plan.proof
run check-proof plan.proof --value
want_out '{"step":1}'
run --json check-proof plan.proof
want_out_has '"ok":true,"kind":"value"'
want_out_has '"key":"plan"'
want_out_has '"value":{"step":1}'
"$verifier" plan.proof "$id" >"$out" 2>"$err" || bad "the verifier refuses the commit"
"$verifier" plan.proof "$(printf %064d 0)" >"$out" 2>"$err" && bad "the verifier accepts any commit"

t prove__shows_absence_before_between_and_after_and_in_nothing
run init
run prove nothing -o empty.proof
run check-proof empty.proof
want_out_like '^absent$'
want_agreement empty.proof
i=0
while [ $i -lt 200 ]; do echo "{\"op\":\"put\",\"key\":\"k/$i\",\"value\":$i}"; i=$((i + 1)); done >ops
"$perdure" batch <ops >"$out" 2>"$err"
code=$?
want_code 0
for key in a k/1 k/15x k/200 zzz k/; do
  run prove "$key" -o a.proof
  run check-proof a.proof --key "$key"
  want_code 0
  run has "$key"
  if [ "$code" = 0 ]; then want=value; else want=absent; fi
  run check-proof a.proof
  want_out_like "^$want"
  want_agreement a.proof
done

t prove__by_id_leaves_the_bytes_out
run put secret hunter2
run prove secret --no-value -o s.proof
want_err_like 'kind value_id'
run check-proof s.proof
want_out_like "^value id $(printf hunter2 | sha256sum | cut -c1-64)\$"
want_out_unlike hunter2
grep -q hunter2 s.proof && bad "the bytes are in the file"
want_agreement s.proof
run check-proof s.proof --value
want_failure 1 'no value in it'

t prove__works_for_old_commits_and_without_a_store
run put k old
old=$(cat "$out")
run put k new
run del k
run prove k --at main~2 -o old.proof
want_line "$old"
run prove k -o gone.proof
rm -r .perdure
run check-proof old.proof --commit "$old"
want_out_like '^value old$'
run check-proof gone.proof
want_out_like '^absent$'

t prove__large_values_are_shown_too
head -c 300000 /dev/urandom >large
run put large @large
run prove large -o l.proof
run check-proof l.proof --value
cmp -s "$out" large || bad "the value is another"
"$verifier" l.proof >/dev/null || bad "the verifier refuses it"

t prove__to_standard_output_and_as_json
run put k 1
"$perdure" prove k 2>"$err" | "$perdure" check-proof - >"$out" 2>/dev/null
want_out_like '^value 1$'
run --json prove k
want_out_like '^\{"kind":"value","commit":"[0-9a-f]{64}","key":"k","size":[0-9]+,"proof":"[A-Za-z0-9+/]+=*"\}$'
run --json prove k -o k.proof
want_out_like '"file":"k.proof"\}$'

t descent__is_shown_along_branches_and_refused_where_there_is_none
run put a 1
first=$(cat "$out")
run fork side
run put b 1
run put c 1 --ref side
run prove --descends "$first" -o d.proof
want_code 0
run check-proof d.proof --ancestor "$first"
want_out_like "^descends from $first\$"
want_agreement d.proof
run prove --descends "$first" side -o s.proof
run check-proof s.proof --ancestor "$first"
want_code 0
run prove --descends side main -o no.proof
want_failure 1 'does not descend'
want_true [ ! -e no.proof ]
run prove --descends root main -o r.proof
want_code 0
run --json check-proof r.proof
want_out_has '"distance":2'
run prove --descends main main -o same.proof
want_agreement same.proof
run check-proof d.proof --key a
want_failure 1 'one of descent'
run check-proof d.proof --ancestor "$(printf %064d 0)"
want_failure 1 'another ancestor'

t check_proof__refuses_every_flipped_byte_and_the_verifier_agrees
run put k value
run prove k -o k.proof
size=$(wc -c <k.proof)
i=0
while [ $i -lt "$size" ]; do
  flip k.proof $i bad.proof
  "$verifier" bad.proof >/dev/null 2>&1 && bad "the verifier accepts byte $i changed"
  [ $((i % 7)) != 0 ] || want_agreement bad.proof
  i=$((i + 1))
done
flip k.proof 40 bad.proof
run check-proof bad.proof
want_failure 1 'refused: it was damaged or cut'

t check_proof__refuses_what_is_cut_empty_or_no_proof
run put k value
run prove k -o k.proof
for size in 0 1 5 37 38 100; do
  head -c $size k.proof >cut.proof
  run check-proof cut.proof
  want_failure 1 refused
  want_agreement cut.proof
done
cat k.proof k.proof >two.proof
run check-proof two.proof
want_failure 1 refused
want_agreement two.proof
run check-proof "$perdure"
want_failure 1 'no proof'
run check-proof nofile
want_failure 2 'cannot open'
head -c 70000000 /dev/zero >huge.proof
run check-proof huge.proof
want_failure 5 'over the limit'

t check_proof__refuses_another_key_and_another_commit
run put k 1
run put l 1
run prove k -o k.proof
run check-proof k.proof --key l
want_failure 1 'another key'
run check-proof k.proof --commit "$(printf %064d 0)"
want_failure 1 'another commit: [0-9a-f]{64}'
run check-proof k.proof --ancestor "$(printf %064d 0)"
want_failure 1 'not of descent'
run check-proof k.proof --commit 3f2a
want_failure 2 '64 digits'
run --json check-proof k.proof --key l
want_code 1
want_err_like '^\{"error":\{"code":"VersionConflict"'

t prove__says_what_is_wrong_with_its_arguments
run put k 1
run prove
want_failure 2 'prove what'
run prove k --descends main --at main
want_failure 2 'takes no --at'
run prove k --at nowhere
want_failure 1 nowhere
run prove k -o /nonexistent/file
want_failure 4 'cannot write'
run prove ''
want_failure 2 'key'
rm -r .perdure
run prove k
want_failure 4 'no store'

t keygen__makes_one_key_that_nobody_else_can_read
run keygen
want_failure 4 'no home'
want_err_like '^hint: .*perdure init'
run init
run sign
want_failure 4 'no key'
want_err_like '^hint: .*keygen'
run keygen
want_out_like '^[A-Za-z0-9+/]{43}=$'
public=$(cat "$out")
[ "$(stat -c %a .perdure/perdure.key)" = 600 ] || bad "mode $(stat -c %a .perdure/perdure.key)"
[ "$(ls .perdure | grep -c key)" = 1 ] || bad "something was left beside it"
cp .perdure/perdure.key before
run keygen
want_failure 3 'key already'
cmp -s before .perdure/perdure.key || bad "the key was changed"
run keygen --public
want_line "$public"
run --json keygen --public
want_out_has "{\"public_key\":\"$public\",\"pem\":\"-----BEGIN PUBLIC KEY-----"
chmod 644 .perdure/perdure.key
run sign
want_failure 2 'chmod 600'
echo rubbish >.perdure/perdure.key
chmod 600 .perdure/perdure.key
run sign
want_failure 2 'no private key'
run --store memory: keygen
want_failure 2 "'memory:' has no folder"

t sign__says_where_history_stands_and_verify_checks_it
run put k 1
id=$(cat "$out")
run keygen
run sign -o head.json
want_no_out
run keygen --public
cp "$out" home.pub
grep -q "\"agent\":\"main\",\"ref\":\"main\",\"commit\":\"$id\"" head.json || bad "it does not name the commit"
run put k 2
run verify --key home.pub --head head.json
want_code 0
want_out_like '^signed +2$'
want_out_like '^ok$'
run verify --key "$(cat home.pub)"
want_out_like '^signed +1$'
run keygen --public --pem
cp "$out" home.pem
run --json verify --key home.pem
want_out_has '"signed_heads":1,'
run sign main~1 --no-keep
want_out_has '"ref":"",'
run verify --key home.pub
want_out_like '^signed +1$'
run verify
want_out_unlike signed

t sign__of_another_key_is_found
run put k 1
run keygen
run sign -o head.json
run --store other put k 1
run --store other keygen
cp "$out" other.pub
run verify --key other.pub
want_code 4
want_out_like '^damaged: signed head .*another key'
want_out_like '^1 finding$'
run --json verify --key other.pub
want_out_has '"ok":false'

t verify__finds_a_history_that_was_cut_or_made_anew
run put k 1
run put k 2
run keygen
cp "$out" home.pub
cp -r .perdure early
run put k 3
run sign --no-keep -o head.json
run --store early verify --key home.pub --head head.json
want_code 4
want_out_like '^damaged: .*the log ends before it'
run --store early put k 3
run --store early put k 4
run --store early verify --key home.pub --head head.json
want_code 4
want_out_like '^damaged: .*not what was signed'
run --store early verify
want_code 0
run --agent other put k 1
run --agent other verify --key home.pub --head head.json
want_code 4
want_out_like "is for agent 'main', not 'other'"

t verify__refuses_a_signed_head_with_any_part_changed
run put k 1
run keygen
cp "$out" home.pub
run sign --no-keep -o head.json
for change in 's/"seq":/"seq":1/' 's/"ref":"main"/"ref":"mail"/' 's/,"ref"/, "ref"/' 's/"agent":"main"/"agent":"maim"/' \
  's/_head":1/_head":2/' 's/"time":"2/"time":"3/' 's/"commit":"./"commit":"z/' 's/$/ /' 's/}/,"more":1}/' 's/signature":"....../signature":"AAAAAA/'; do
  sed "$change" head.json >bad.json
  cmp -s head.json bad.json && bad "$change changes nothing"
  run verify --key home.pub --head bad.json
  want_code 4
  want_out_like '^damaged: the signed head'
done
run verify --head head.json
want_failure 2 'needs --key'
run verify --key nonsense
want_failure 2 'neither a public key'
run verify --key .perdure/perdure.key
want_failure 2 'private key'
run verify --key home.pub --head nofile
want_failure 2 'cannot open'

finish
