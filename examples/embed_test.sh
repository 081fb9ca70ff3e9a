#!/bin/sh
# embed_test.sh EMBED: the example runs and prints what it says. TAP.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 1..2
status=0
if out=$("$1" "sqlite:$work/store" 2>&1) && [ "$out" = 'it was {"step":1}
version 1 by main: 10 bytes' ]; then
  echo "ok 1 - embed__shows_the_past_and_the_history"
else
  status=1
  echo "not ok 1 - embed__shows_the_past_and_the_history"
  echo "$out" | sed 's/^/# /'
fi
if "$1" nonsense >/dev/null 2>"$work/err"; [ $? = 4 ] && grep -q '^open: InvalidArgument: ' "$work/err"; then
  echo "ok 2 - embed__names_what_is_wrong_with_a_uri"
else
  status=1
  echo "not ok 2 - embed__names_what_is_wrong_with_a_uri"
  sed 's/^/# /' "$work/err"
fi
exit $status
