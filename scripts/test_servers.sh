#!/bin/sh
# Install Redis and PostgreSQL, of which the tests of the proxy's stores start servers of their own, and Chromium, in
# which the tests of pages open them.
#
#   scripts/test_servers.sh
#
# It does so only as root and with apt-get; otherwise those tests skip. It starts no service and makes no database. The
# exit code is always 0.
set -u

servers=
command -v redis-server >/dev/null 2>&1 || servers="redis-server"
command -v postgres >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
    servers="$servers postgresql"
browser=chromium
for name in chromium chromium-browser google-chrome chrome; do
    command -v "$name" >/dev/null 2>&1 && browser=
done
[ -n "$servers$browser" ] || exit 0
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

packages() {
    DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -qq -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold -o Acquire::Retries=2 "$@" >/dev/null 2>&1
}

install() {
    [ "$#" -gt 0 ] || return 0
    echo "test servers: installing $*" >&2
    packages "$@" || { timeout 120 apt-get update -qq >/dev/null 2>&1; packages "$@"; } ||
        echo "test servers: $* could not be installed; the tests that need it will skip" >&2
}

# shellcheck disable=SC2086  # one word for each package
install $servers
# shellcheck disable=SC2086
install $browser
exit 0
