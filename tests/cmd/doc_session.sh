#!/bin/sh
# doc_session.sh PERDURE FILE [HEADING]: runs the ```console blocks of a page (or of one of its sections) in order, in one shell and a folder of
# its own, and compares what the commands print with what the page says. TAP: one line a command.
#
# Lines with "$ " are commands; what follows up to the next one has to be printed, where … stands for anything. Where nothing follows the command
# has to succeed. 7373 becomes a port that is free. What a command that ends with & prints is waited for.
set -u
export LC_ALL=C
unset PERDURE_STORE PERDURE_AGENT PERDURE_SESSION NO_COLOR
. "$(dirname "$0")/free_port.sh"
real=$(realpath "$1")
page=$(realpath "$2")
heading=${3:-}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/perdure-doc.XXXXXX")
trap 'for pid in $(cat "$tmp/pids" 2>/dev/null); do kill "$pid" 2>/dev/null; done; wait; rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/work" "$tmp/steps"

# N.command and N.wanted of each command
awk -v heading="$heading" -v folder="$tmp/steps" '
  /^## / { is_here = heading != "" && $0 == "## " heading }
  heading == "" { is_here = 1 }
  /^```/ { is_block = is_here && $0 == "```console"; next }
  !is_block { next }
  /^\$ / { count++; print substr($0, 3) > (folder "/" count ".command"); printf "" > (folder "/" count ".wanted"); next }
  count { print > (folder "/" count ".wanted") }
  END { print count + 0 > (folder "/count") }' "$page"
count=$(cat "$tmp/steps/count")
[ "$count" -gt 0 ] || { echo "Bail out! $page has no session '$heading'"; exit 1; }

port=$(free_port)

cat >"$tmp/bin/perdure" <<END
#!/bin/sh
[ "\${1:-}" = serve ] && set -- "\$@" --listen 127.0.0.1:$port && echo \$\$ >>"$tmp/pids"
exec "$real" "\$@"
END
chmod +x "$tmp/bin/perdure"
PATH=$tmp/bin:$PATH
export PATH
cd "$tmp/work" || exit 1

is_as_wanted() {
  [ -s "$tmp/wanted" ] || return "$1"
  pattern=$(sed 's/[][*?\\]/\\&/g; s/…/*/g' "$tmp/wanted")
  # shellcheck disable=SC2254 # a pattern on purpose
  case $(cat "$tmp/out") in $pattern) return 0 ;; *) return 1 ;; esac
}

failures=0
n=0
while [ $n -lt "$count" ]; do
  n=$((n + 1))
  sed "s/7373/$port/g" "$tmp/steps/$n.command" >"$tmp/command"
  sed "s/7373/$port/g" "$tmp/steps/$n.wanted" >"$tmp/wanted"
  eval "$(cat "$tmp/command")" >"$tmp/out" 2>"$tmp/err" </dev/null
  status=$?
  tries=0
  case $(cat "$tmp/command") in
  *'&') until is_as_wanted 0 || [ $tries -ge 3000 ]; do sleep 0.02; tries=$((tries + 1)); done ;;
  *' -m 1 '*) # a stream that is followed for a second; for longer where a second was not enough
    is_as_wanted $status || { eval "$(sed 's/ -m 1 / -m 20 /' "$tmp/command")" >"$tmp/out" 2>"$tmp/err" </dev/null; status=$?; } ;;
  esac
  name="docs__$(basename "$page" .md)__$n: $(cut -c1-100 "$tmp/steps/$n.command" | tr -d '#\\')"
  if is_as_wanted $status; then
    echo "ok $n - $name"
  else
    failures=$((failures + 1))
    echo "not ok $n - $name"
    echo "# exit code $status; wanted:"
    head -c 1500 "$tmp/wanted" | awk '{ print "#   " $0 }'
    echo "# got:"
    cat "$tmp/out" "$tmp/err" | head -c 1500 | awk '{ print "#   " $0 }'
  fi
done
echo "1..$count"
[ $failures = 0 ]
