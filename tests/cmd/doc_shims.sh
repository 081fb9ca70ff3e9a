# doc_shims.sh: what the commands of a page that need a whole machine do in a test. Source it in doc_session.sh, which has set build, source, tmp, port and real.
#
#   perdure     the one that was installed; serve listens on the test's port, unless it is told where
#   sudo        runs the command as it is: everything is below the test's folder
#   tools/deps  looks whether packages are missing, and installs none
#   cc          links the sanitizer that perdure was built with, too, if there is one
#   make        checks that the goal is one (-n). install installs what was built; run serves until its link is printed, and gets a Ctrl-C;
#               test does no more, since this is one of its tests
#   systemctl   there is no service manager here: the units are verified and enabled below the test's folder; start runs the unit's ExecStart,
#               reload sends SIGHUP
shim() { cat >"$tmp/bin/$1" && chmod +x "$tmp/bin/$1"; }

doc_shims() {
  units=$(dirname "$(find "$tmp/root" -name perdure.socket)")
  export CPATH="$source/include" PKG_CONFIG_SYSROOT_DIR="$tmp/root"
  library=$(find "$tmp/root" -name libperdure.so)
  [ -z "$library" ] || export LD_LIBRARY_PATH="$(dirname "$library")" PKG_CONFIG_PATH="$(dirname "$library")/pkgconfig"
  [ -z "$library" ] || export CPATH="$(dirname "$(find "$tmp/root" -path '*/include/perdure')")"
  mkdir -p "$tmp/var/lib" "$tmp/root/etc"
  shim perdure <<END
#!/bin/sh
case "\$*" in serve*--listen*) ;; serve*) set -- "\$@" --listen 127.0.0.1:$port ;; esac
exec "$real" "\$@"
END
  case ${PERDURE_SANITIZER-} in asan) flag=-fsanitize=address ;; ubsan) flag=-fsanitize=undefined ;; tsan) flag=-fsanitize=thread ;; *) flag= ;; esac
  shim cc <<END
#!/bin/sh
$(command -v cc) $flag "\$@" 2>"$tmp/cc.err" || { cat "$tmp/cc.err" >&2; exit 1; } # the linker warns of what is in the sanitizer
END
  shim sudo <<END
#!/bin/sh
[ "\$1" != -u ] || shift 2
if [ "\$1" = tools/deps ]; then shift; exec "$source/tools/deps" --check "\$@"; fi
exec "\$@"
END
  shim make <<END
#!/bin/sh
cd "$source" || exit 1
unset MAKEFLAGS MAKELEVEL
$(command -v make) -n "\$@" >/dev/null || exit
case \$1 in
install) [ -f "$build" ] || DESTDIR="$tmp/root" meson install -C "$build" --no-rebuild ;;
run)
  PORT=$port HOME_DIR="$tmp/run" tools/run "$real" >"$tmp/run.out" &
  until grep -q 'Ctrl-C' "$tmp/run.out" || ! kill -0 \$!; do sleep 0.02; done
  cat "$tmp/run.out"
  kill \$!
  wait \$!
  ;;
esac
END
  shim systemd-sysusers <<END
#!/bin/sh
exec $(command -v systemd-sysusers) --root="$tmp/root"
END
  shim systemctl <<END
#!/bin/sh
case \$1 in
daemon-reload)
  sed -e 's|^ExecStart=[^ ]*|ExecStart=$real|' -e 's/^\(User\|Group\)=.*/\1=root/' "$units/perdure.service" >"$tmp/perdure.service"
  sed 's/^\(SocketUser\|SocketGroup\)=.*/\1=root/' "$units/perdure.socket" >"$tmp/perdure.socket"
  SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$tmp/perdure.service" "$tmp/perdure.socket" 2>&1 | grep 'perdure\.[a-z]*:' && exit 1
  exit 0
  ;;
enable)
  shift 2 # --now
  $(command -v systemctl) --root="$tmp/root" enable "\$@" || exit
  start=\$(sed -n 's|^ExecStart=[^ ]*/||; T; s|/var/lib|$tmp/var/lib|; s|[$]PERDURE_SERVE_ARGS||; p' "$units/perdure.service")
  \$start >"$tmp/service.out" 2>&1 &
  echo \$! >"$tmp/service.pid"
  curl -sS --retry 100 --retry-delay 0 --retry-connrefused -o "$tmp/ready" "127.0.0.1:$port/readyz"
  ;;
reload)
  kill -HUP "\$(cat "$tmp/service.pid")"
  until grep -q reload "$tmp/service.out"; do kill -0 "\$(cat "$tmp/service.pid")" || exit; sleep 0.02; done
  ;;
*) exit 1 ;;
esac
END
}
