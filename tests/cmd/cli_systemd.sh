#!/bin/sh
# cli_systemd.sh PERDURE UNIT SOCKET: the units: systemd takes them, and what they call is there.
. "$(dirname "$0")/tap.sh"
unit=$2
socket=$3

t unit__every_option_that_it_gives_is_one_of_serve
run serve --help
grep '^ExecStart=' "$unit" | grep -o -e ' --[a-z-]*' >options
[ -s options ] || bad "the unit gives no options"
while read -r option; do
  grep -q -e "$option\b" "$out" || bad "serve has no $option"
done <options
want_code 0

t unit__its_home_is_the_state_directory
home=$(sed -n 's/^ExecStart=.* --home \([^ ]*\).*/\1/p' "$unit")
[ "$home" = "/var/lib/$(sed -n 's/^StateDirectory=//p' "$unit")" ] || bad "$home is not the state directory"

# A unit that names the binary of this build, and this user: systemd-analyze looks whether they are there.
local_unit() {
  sed -e "s|^ExecStart=[^ ]*|ExecStart=$perdure|" -e "s/^\(User\|Group\)=.*/\1=root/" -e '/^EnvironmentFile=/d' "$unit" >perdure.service
  sed -e 's/^\(SocketUser\|SocketGroup\)=.*/\1=root/' "$socket" >perdure.socket
}

t unit__systemd_takes_both
if ! command -v systemd-analyze >/dev/null; then
  skip "no systemd-analyze here"
else
  local_unit
  SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no ./perdure.service ./perdure.socket >"$out" 2>&1
  code=$?
  grep -e 'perdure\.\(service\|socket\)' "$out" >"$err"
  [ ! -s "$err" ] || bad "systemd-analyze verify finds something"
fi

t unit__little_is_left_that_it_may_do
if ! systemd-analyze security --help 2>/dev/null | grep -q -e --offline; then
  skip "no systemd-analyze security --offline here"
else
  local_unit
  cp "$unit" perdure.service # with its own user
  systemd-analyze security --offline=yes --no-pager --threshold=20 ./perdure.service >"$out" 2>"$err" # of 100; 96 for one without any hardening
  code=$?
  want_code 0
fi

finish
