#!/bin/sh
# client.sh PERDURE FOLDER: client.mjs with the packages it needs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
node=$(sh "$here/npm.sh" "$2") || { echo "1..1"; echo "not ok 1 - mcp__the_official_clients_are_installed"; exit 1; }
exec "$node" "$here/client.mjs" "$2" "$1"
