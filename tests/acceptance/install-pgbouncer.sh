#!/bin/sh
# The acceptance tests of a pooler need pgbouncer; where it cannot be installed, they are skipped and say so.
command -v pgbouncer >/dev/null && exit 0
[ -x /usr/sbin/pgbouncer ] && exit 0
command -v apt-get >/dev/null || exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
echo "installing the package pgbouncer"
# RUNLEVEL=1: the package must not start a service of its own.
$as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends pgbouncer >/dev/null 2>&1 ||
    echo "pgbouncer could not be installed; its tests are skipped" >&2
exit 0
