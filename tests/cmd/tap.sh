# tap.sh: what the shell tests of the command line share. Source it with the binary as $1.
#
#   t NAME        begin a test (in a fresh folder); the one before is judged
#   run ARGS…     run perdure; its output is in $out and $err (files), its exit code in $code
#   until_true …  wait until a command succeeds; a minute at most
#   want_…        judge; a failure is told as a comment, and the test fails
#   finish        judge the last test, print the plan, exit
set -u
export LC_ALL=C
unset PERDURE_STORE PERDURE_AGENT NO_COLOR PAGER PERDURE_PAGER
perdure=$(realpath "$1")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/perdure-cli.XXXXXX")
# Servers that commands have started in the background go on as long as there is a session: those of homes in $tmp end here.
end_servers() {
  find "$tmp" -name .server.lock -exec sed -n 's/^\([0-9]*\) idle$/\1/p' {} + 2>/dev/null | while read -r pid; do
    case $(readlink "/proc/$pid/exe") in "$perdure") kill "$pid" ;; esac
  done
}
trap 'end_servers; chmod -R u+rwx "$tmp" 2>/dev/null; rm -rf "$tmp"' EXIT
out=$tmp/stdout
err=$tmp/stderr
count=0
failures=0
name=
is_bad=0

judge() {
  [ -n "$name" ] || return 0
  if [ "$is_bad" = 0 ]; then
    echo "ok $count - $name"
  else
    echo "not ok $count - $name"
    failures=$((failures + 1))
  fi
}

t() {
  judge
  count=$((count + 1))
  name=$1
  is_bad=0
  mkdir "$tmp/$count" && cd "$tmp/$count" || exit 1
}

skip() {
  echo "ok $count - $name # SKIP $1"
  name=
}

finish() {
  judge
  echo "1..$count"
  [ "$failures" = 0 ]
  exit
}

bad() {
  is_bad=1
  echo "# $name: $*"
  # awk ends the last line, where sed would let the next one of TAP run into it
  head -n 5 "$out" | awk '{ print "#   out: " substr($0, 1, 300) }'
  head -n 5 "$err" | awk '{ print "#   err: " substr($0, 1, 300) }'
}

run() {
  "$perdure" "$@" >"$out" 2>"$err" </dev/null
  code=$?
}

# run with what the first argument prints on standard input
run_with() {
  input=$1
  shift
  printf '%s' "$input" | "$perdure" "$@" >"$out" 2>"$err"
  code=$?
}

# What comes after all comes within a minute, on a machine that does other things.
until_true() {
  waited=0
  until "$@" >/dev/null 2>&1; do
    sleep 0.02
    waited=$((waited + 1))
    [ $waited -lt 3000 ] || { bad "waited in vain for: $*"; return 1; }
  done
}

want_code() { [ "$code" = "$1" ] || bad "exit code $code, not $1"; }
want_out() { printf '%s' "$1" | cmp -s - "$out" || bad "standard output is not: $1"; }
want_line() { [ "$(cat "$out")" = "$1" ] || bad "standard output is not the line: $1"; }
want_out_like() { grep -Eq -- "$1" "$out" || bad "standard output has nothing like: $1"; }
want_out_unlike() { ! grep -Eq -- "$1" "$out" || bad "standard output has something like: $1"; }
want_out_has() { grep -Fq -- "$1" "$out" || bad "standard output has not: $1"; }
want_no_out() { [ ! -s "$out" ] || bad "there is standard output"; }
want_no_err() { [ ! -s "$err" ] || bad "there is standard error"; }
want_err_like() { grep -Eq -- "$1" "$err" || bad "standard error has nothing like: $1"; }
want_id() { want_out_like '^[0-9a-f]{64}$'; [ "$(wc -l <"$out")" = 1 ] || bad "not one line"; }
want_count() { [ "$(wc -l <"$out")" -eq "$1" ] || bad "$(wc -l <"$out") lines, not $1"; }
# one line beginning with "perdure: ", and perhaps a hint; nothing else; nothing on standard output
want_failure() {
  want_code "$1"
  want_no_out
  grep -Eq -- "^perdure: .*$2" "$err" || bad "no error like: $2"
  [ "$(grep -vc '^hint: ' "$err")" = 1 ] || bad "the error is not one line"
}
want_true() { "$@" || bad "not true: $*"; }
