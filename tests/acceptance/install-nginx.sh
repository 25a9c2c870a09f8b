#!/bin/sh
# The acceptance test of a reverse proxy needs nginx; where it cannot be installed, it is skipped and says so.
command -v nginx >/dev/null && exit 0
[ -x /usr/sbin/nginx ] && exit 0
command -v apt-get >/dev/null || exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "installing the package nginx-light"
# RUNLEVEL=1: the package must not start a service of its own.
$as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends nginx-light >/dev/null 2>&1 ||
    echo "nginx could not be installed; its test is skipped" >&2
exit 0
