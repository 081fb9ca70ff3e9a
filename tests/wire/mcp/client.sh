#!/bin/sh
# client.sh PERDURE FOLDER SCRIPT: a script for Node with the packages it needs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
node=$(sh "$here/npm.sh" "$2") || { echo "1..1"; echo "not ok 1 - mcp__the_official_clients_are_installed"; exit 1; }
exec "$node" "$here/$3" "$2" "$1"
