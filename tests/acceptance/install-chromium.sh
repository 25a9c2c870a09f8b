#!/bin/sh
# The tests of the page need Debian's Chromium; where it cannot be installed, they are skipped and say so.
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] && exit 0
command -v apt-get >/dev/null || exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "installing the package chromium"
$as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 ||
    echo "chromium could not be installed; the tests of the page are skipped" >&2
exit 0
