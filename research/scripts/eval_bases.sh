#!/bin/sh
# Make root file systems for the evaluation's own environment, which needs no Docker.
#
#   research/scripts/eval_bases.sh [DIR]        as root; the default is /var/tmp/wane-bases
#
# It makes a folder for each image: DIR/ubuntu:24.04 and DIR/python:3.13-slim-bookworm, and two of uv, from which
# Dockerfiles of Terminal-Bench copy its programs (UV_IMAGES names other versions). The packages come from the archives
# that debootstrap knows, or from DEBIAN_MIRROR and UBUNTU_MIRROR. Both get uv and a Python 3.13, which the
# tests of Terminal-Bench need: the one on the path, or one that pyenv or uv installed; PYTHON313 names the prefix of
# another. The certificates and the resolver are this machine's.
set -eu

target=${1:-/var/tmp/wane-bases}
# The prefix of a Python 3.13 that runs, not of a shim that only stands for one.
find_python() {
    home=$HOME
    [ -z "${SUDO_USER:-}" ] || home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    for candidate in python3.13 \
        "${PYENV_ROOT:-$home/.pyenv}"/versions/3.13.*/bin/python3.13 \
        "${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-$home/.local/share}/uv/python}"/cpython-3.13.*/bin/python3.13; do
        "$candidate" -c 'import sys; print(sys.base_prefix)' 2>/dev/null && return
    done
    return 0
}

python=${PYTHON313:-$(find_python)}
scripts=/usr/share/debootstrap/scripts
# Debian does not have Ubuntu's keyring package.
keyring_file=pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb
keyring_sha256=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

say() { echo "eval bases: $1" >&2; }
fail() { say "$1"; exit 1; }

[ "$(id -u)" = 0 ] || fail "run this as root"
[ -n "$python" ] && [ -x "$python/bin/python3.13" ] ||
    fail "no Python 3.13 on the path, in pyenv's or in uv's folder: run 'uv python install 3.13', or name a prefix in PYTHON313"
command -v debootstrap >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
mkdir -p "$target"

known_ubuntu() {
    sed -n 's/^[[:space:]]*default_mirror[[:space:]]*//p' "$scripts/gutsy" | grep -v -e old -e ports | head -n 1
}

# The default mirror of Debian is only in the text of debootstrap itself.
known_debian() {
    sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)" | head -n 1
}

ubuntu_keyring() {
    file=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    if [ ! -e "$file" ]; then
        curl -fsSL -o "$work/keyring.deb" "$ubuntu/$keyring_file"
        echo "$keyring_sha256  $work/keyring.deb" | sha256sum --check --quiet
        dpkg-deb -x "$work/keyring.deb" "$work/keyring"
        file=$work/keyring$file
    fi
    echo "$file"
}

certificates() {
    mkdir -p "$1/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
}

add_python() {
    mkdir -p "$2"
    tar -C "$python" --exclude='lib/python3.13/test' --exclude='*.a' --exclude='lib/python3.13/site-packages/*' \
        --exclude=__pycache__ -c bin lib include | tar -C "$2" --no-same-owner -x
    rm -f "$2"/bin/pip*
    echo "${2#"$1"}/lib" >"$1/etc/ld.so.conf.d/python313.conf"
    chroot "$1" ldconfig
}

add_uv() {
    mkdir -p "$1/root/.local/bin"
    cp "$work"/uv/uv-*.data/scripts/uv "$work"/uv/uv-*.data/scripts/uvx "$1/root/.local/bin/"
    chmod 755 "$1"/root/.local/bin/uv*
    # The tests of Terminal-Bench source this file after they have tried to install uv.
    printf '%s\n' 'export PATH="$HOME/.local/bin:$PATH"' 'export UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy' \
        'export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' >"$1/root/.local/bin/env"
}

install() {
    root=$1
    shift
    chroot "$root" apt-get update -qq
    chroot "$root" apt-get install -y -qq --no-install-recommends ca-certificates tzdata libbz2-1.0 libffi8 liblzma5 \
        libncursesw6 libsqlite3-0 libuuid1 zlib1g "$@" >/dev/null
    chroot "$root" apt-get clean
    certificates "$root"
}

python3 -m pip download -q --no-deps -d "$work" uv
python3 -m zipfile -e "$work"/uv-*.whl "$work/uv"

debian=${DEBIAN_MIRROR:-$(known_debian)}
ubuntu=${UBUNTU_MIRROR:-$(known_ubuntu)}
[ -n "$debian" ] && [ -n "$ubuntu" ] || fail "set DEBIAN_MIRROR and UBUNTU_MIRROR"

make_debian() {
    root=$1
    debootstrap --variant=minbase bookworm "$root" "$debian" >"$work/log" || { tail "$work/log" >&2; return 1; }
    certificates "$root"
    printf 'deb %s bookworm main\ndeb %s bookworm-updates main\ndeb %s-security bookworm-security main\n' \
        "$debian" "$debian" "$debian" >"$root/etc/apt/sources.list"
    install "$root" libssl3 libreadline8 netbase
    add_python "$root" "$root/usr/local"
    chroot "$root" /usr/local/bin/python3.13 -m ensurepip >/dev/null 2>&1
    ln -sf pip3 "$root/usr/local/bin/pip"
    ln -sf python3.13 "$root/usr/local/bin/python3"
    ln -sf python3.13 "$root/usr/local/bin/python"
    add_uv "$root"
}

make_ubuntu() {
    root=$1
    debootstrap --variant=minbase --components=main,universe --keyring="$(ubuntu_keyring)" noble "$root" "$ubuntu" \
        gutsy >"$work/log" || { tail "$work/log" >&2; return 1; }
    certificates "$root"
    printf 'deb %s noble main universe\ndeb %s noble-updates main universe\n' "$ubuntu" "$ubuntu" \
        >"$root/etc/apt/sources.list"
    install "$root" libssl3t64 libreadline8t64
    # Not on PATH, as in the image. uv takes it for a Python that it installed.
    add_python "$root" "$root/root/.local/share/uv/python/cpython-3.13.0-linux-x86_64-gnu"
    add_uv "$root"
}

# As in the image: nothing but the programs.
make_uv() {
    python3 -m pip download -q --no-deps -d "$work/uv-$version" "uv==$version"
    python3 -m zipfile -e "$work/uv-$version"/uv-*.whl "$work/uv-$version/wheel"
    mkdir -p "$1"
    cp "$work/uv-$version"/wheel/uv-*.data/scripts/uv "$work/uv-$version"/wheel/uv-*.data/scripts/uvx "$1/"
    chmod 755 "$1/uv" "$1/uvx"
}

make() {
    [ ! -e "$target/$1" ] || { say "$1 exists"; return; }
    say "making $1"
    rm -rf "$target/.new"
    "$2" "$target/.new"
    mkdir -p "$(dirname "$target/$1")"
    mv "$target/.new" "$target/$1"
}

make python:3.13-slim-bookworm make_debian
make ubuntu:24.04 make_ubuntu
for version in ${UV_IMAGES:-0.8.14 0.8.15}; do
    make "ghcr.io/astral-sh/uv:$version" make_uv
done
du -sh "$target"/*:*
