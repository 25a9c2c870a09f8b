#!/bin/sh
# Evaluates this checkout of Holdfast on the miniature task with Harbor: run.sh MODEL [further arguments of `harbor run`].
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
model="${1:?usage: run.sh PROVIDER/MODEL [arguments of harbor run]}"
shift
python3 -m pip wheel --quiet --wheel-dir "$here/greeting/environment/wheels" "$root"
exec harbor run -p "$here/greeting" -a acp --ak registry_entry_path="$root/deploy/acp/harbor-local.json" -m "$model" "$@"
