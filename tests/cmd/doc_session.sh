#!/bin/sh
# doc_session.sh BUILD SOURCE PAGE: installs perdure from the build folder, as `make install` does, and runs the ```console blocks of a page of the
# source tree as they are printed, in order, in one shell and a folder that has nothing but links to examples and build, and compares what the
# commands print with what the page says. TAP: one line a command.
#
# Lines with "$ " are commands (a \ at the end goes on on the next line, <<'END' up to END); what follows up to the next one has to be printed, on
# standard output or with what is on standard error before or after it, where … stands for anything. Where nothing follows the command has to succeed.
# A block that names a file (```toml agent.toml) is saved under that name. Ids and times are other ones each time: where the page prints one, the one
# that came stands for it from there on. 7373 becomes a port that is free, 0.0.0.0 stays on loopback, /var/lib/perdure is inside the test's folder.
# What a command that ends with & prints is waited for. doc_shims.sh says what sudo, make and systemctl do here.
set -u
export LC_ALL=C
unset PERDURE_STORE PERDURE_AGENT PERDURE_SESSION PERDURE_EPOCH NO_COLOR
. "$(dirname "$0")/free_port.sh"
build=$(realpath "$1")
source=$(realpath "$2")
page=$source/$3
tmp=$(mktemp -d "${TMPDIR:-/tmp}/perdure-doc.XXXXXX")
# Servers go on, also those that keep sessions, in the background: all that runs the perdure that was installed here.
end_all() {
  for process in /proc/[0-9]*; do
    case $(readlink "$process/exe") in "$tmp"/*) kill "${process#/proc/}" 2>/dev/null ;; esac
  done
  wait
  rm -rf "$tmp"
}
trap end_all EXIT
trap 'exit 1' INT TERM
mkdir "$tmp/bin" "$tmp/work" "$tmp/steps"

if [ -f "$build" ]; then
  mkdir -p "$tmp/root/bin" && cp "$build" "$tmp/root/bin/perdure" # a perdure, without an install: quicker, for who writes a page
  real=$tmp/root/bin/perdure
else
  DESTDIR="$tmp/root" meson install -C "$build" --no-rebuild >"$tmp/install" 2>&1 || {
    sed 's/^/# /' "$tmp/install"
    echo "Bail out! meson install failed"
    exit 1
  }
  real=$(find "$tmp/root" -path '*/bin/perdure' -type f)
fi
[ -x "$real" ] || { echo "Bail out! no perdure was installed"; exit 1; }

# N.command and N.wanted of each command; saving a file is one, too
awk -v folder="$tmp/steps" '
  function begin(text) { count++; command = folder "/" count ".command"; print text > command; printf "" > (folder "/" count ".wanted") }
  /^```/ && is_file { print "END_OF_BLOCK" > command; is_file = 0; next }
  is_file { print > command; next }
  /^```/ && NF == 2 { begin("cat > " $2 " <<\047END_OF_BLOCK\047"); is_file = 1; files++; next }
  /^```/ { is_block = $0 == "```console"; blocks += is_block; next }
  !is_block { next }
  function is_open(line) { sub(/ # .*/, "", line); quotes += gsub(/\047/, "", line); return quotes % 2 } # a quote that ends on another line
  goes_on { print > command; goes_on = until != "" ? $0 != until : (is_open($0) || /\\$/); if (!goes_on) until = ""; next }
  /^\$ / {
    begin(substr($0, 3))
    quotes = 0
    if (/<<.END./) { until = "END"; goes_on = 1 } else goes_on = is_open($0) || /\\$/
    next
  }
  count { print > (folder "/" count ".wanted") }
  END { print count + 0 > (folder "/count"); print blocks + 0 " blocks, " files + 0 " files, " count - files " commands" > (folder "/sums") }' "$page"
count=$(cat "$tmp/steps/count")
[ "$count" -gt 0 ] || { echo "Bail out! $page has no console block"; exit 1; }

# What is another one each time: times, and ids of each sort.
sorts='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z
(bkp|snap|apr)-[0-9]{8}T[0-9]{6}Z(-[0-9a-f]+)?
before-restore/[0-9]{8}T[0-9]{6}Z-[0-9a-f]+
[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
pd_[0-9a-f]{16}_[0-9a-f]{64}
s-[0-9a-f]{32}
alert:[a-z]+:[0-9]+-[0-9]+
\<[0-9a-f]{64}\>
\<[0-9a-f]{16}\>
\<[0-9a-f]{12}\>'
ids=$(echo "$sorts" | paste -sd '|' -)
: >"$tmp/known.sed"
# The first id of a sort on the page is the first one of that sort that came, and so on.
learn() {
  cat "$tmp/out" "$tmp/err" >"$tmp/came"
  echo "$sorts" | while read -r sort; do
    grep -oE -e "$sort" "$tmp/wanted" >"$tmp/page_ids" || continue
    grep -oE -e "$sort" "$tmp/came" | paste "$tmp/page_ids" - |
      awk -F '\t' '$1 != "" && $2 != "" && $1 != $2 { print "s|" $1 "|" $2 "|g" }' >>"$tmp/known.sed"
  done
}

port=$(free_port)

. "$(dirname "$0")/doc_shims.sh"
doc_shims
PATH=$tmp/bin:$PATH
export PATH
ln -s "$source/examples" "$tmp/work/examples"
[ -f "$build" ] || ln -s "$build" "$tmp/work/build"
cd "$tmp/work" || exit 1
HOME=$tmp/work
export HOME

# Ids and times have to be where the page has them; which ones, learn() sees to.
without_ids() { sed -E 's,'"$ids"',ID,g'; }
is_as_wanted() {
  [ -s "$tmp/wanted" ] || return "$1"
  pattern=$(sed -E 's/\<[0-9a-f]{8}…/ID/g' "$tmp/wanted" | without_ids | sed 's/[][*?\\]/\\&/g; s/…/*/g')
  for got in "$(cat "$tmp/out")" "$(cat "$tmp/out" "$tmp/err")" "$(cat "$tmp/err" "$tmp/out")"; do
    # shellcheck disable=SC2254 # a pattern on purpose
    case $(echo "$got" | without_ids) in $pattern) return 0 ;; esac
  done
  return 1
}

# What the page prints, for here. A sanitizer's programs have an address space of terabytes, which no limit for memory lets through.
case ${PERDURE_SANITIZER-} in asan | tsan) sanitized='/^memory = /d' ;; *) sanitized= ;; esac
localize() { sed "$sanitized;s/7373/$port/g; s/0\\.0\\.0\\.0/127.0.0.1/g; s|/var/lib/perdure|$tmp/var/lib/perdure|g" "$1" | sed -f "$tmp/known.sed"; }

failures=0
n=0
while [ $n -lt "$count" ]; do
  n=$((n + 1))
  localize "$tmp/steps/$n.command" >"$tmp/command"
  localize "$tmp/steps/$n.wanted" >"$tmp/wanted"
  eval "$(cat "$tmp/command")" >"$tmp/out" 2>"$tmp/err" </dev/null
  status=$?
  tries=0
  case $(cat "$tmp/command") in
  *'&') until is_as_wanted 0 || [ $tries -ge 3000 ]; do sleep 0.02; tries=$((tries + 1)); done ;;
  *' -m 1 '*) # a stream that is followed for a second; for longer where a second was not enough
    is_as_wanted $status || { eval "$(sed 's/ -m 1 / -m 20 /' "$tmp/command")" >"$tmp/out" 2>"$tmp/err" </dev/null; status=$?; } ;;
  esac
  name="docs__$(echo "$3" | sed 's|docs/guide/||; s|\.md$||; s|/|_|g')__$n: $(head -n 1 "$tmp/steps/$n.command" | cut -c1-100 | tr -d '#\\')"
  if is_as_wanted $status; then
    learn
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
echo "# $(cat "$tmp/steps/sums")"
echo "1..$count"
[ $failures = 0 ]
