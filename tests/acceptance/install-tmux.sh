#!/bin/sh
# The tests of the interactive terminal need tmux; where it cannot be installed, they are skipped and say so.
command -v tmux >/dev/null && exit 0
command -v apt-get >/dev/null || exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "installing the package tmux"
$as_root apt-get install -y -qq --no-install-recommends tmux >/dev/null 2>&1 ||
    echo "tmux could not be installed; the tests of the terminal are skipped" >&2
exit 0
