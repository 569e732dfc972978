#!/bin/sh
# Install Redis and PostgreSQL, of which the tests of the proxy's stores start servers of their own.
#
#   scripts/test_servers.sh
#
# It does so only as root and with apt-get; otherwise those tests skip. It starts no service and makes no database. The
# exit code is always 0.
set -u

missing=
command -v redis-server >/dev/null 2>&1 || missing="redis-server"
command -v postgres >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
    missing="$missing postgresql"
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 0

# While this runs, these files keep Debian from starting services and making a database.
policy=/usr/sbin/policy-rc.d
cluster=/etc/postgresql-common/createcluster.conf
made_policy= made_cluster=
clean_up() {
    [ -z "$made_policy" ] || rm -f "$policy"
    [ -z "$made_cluster" ] || rm -f "$cluster"
}
trap clean_up EXIT
trap 'exit 0' HUP INT TERM
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made_policy=1
fi
if [ ! -e "$cluster" ]; then
    mkdir -p "$(dirname "$cluster")" && echo 'create_main_cluster = false' >"$cluster" && made_cluster=1
fi

install() {
    # shellcheck disable=SC2086  # one word for each package
    DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -qq -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold -o Acquire::Retries=2 $missing >/dev/null 2>&1
}

echo "test servers: installing $missing" >&2
install || { timeout 120 apt-get update -qq >/dev/null 2>&1; install; } ||
    echo "test servers: $missing could not be installed; the tests that need it will skip" >&2
exit 0
