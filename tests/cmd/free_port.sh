# free_port.sh: for tests whose server has to come up at an address that is known before, or once more at the same. Source it.
#
# free_port: prints a port of 127.0.0.1 where nobody listens. Not one that the system chose and we gave back: it is outside of the range
# that it chooses from (32768 and up), so that no server with port 0 that starts meanwhile gets it.
free_port() {
  free_port=$((20000 + $$ % 12000))
  until curl -s -m 10 "127.0.0.1:$free_port/" >/dev/null 2>&1; [ $? = 7 ]; do free_port=$((free_port < 31999 ? free_port + 1 : 20000)); done
  echo "$free_port"
}
