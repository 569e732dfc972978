#!/bin/sh
# Make a virtual environment with the project in it, editable, and what one of its extras needs.
#
#   scripts/install.sh VENV EXTRA
#
# With uv where it is installed, else with venv and pip. PYTHON names the interpreter to use; otherwise the
# first of python3, python3.14 … python3.11 that is new enough.
set -eu

venv=$1
extra=$2
oldest=3.11

new_enough() {
    # Run, not looked up: a launcher may be there for a version that is not.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

say() {
    echo "install: $1" >&2
}

fail() {
    say "$1"
    exit 1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not a Python of at least $oldest"
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    # uv can bring one along.
    if [ -n "$uv" ]; then
        echo ">=$oldest"
        return
    fi
    found=$(python3 --version 2>&1) || found="no python3"
    fail "Python $oldest or newer is needed, found $found. Install one, or name it: make test PYTHON=/path/to/python"
}

make_environment() {
    python=$(find_python)
    say "making $venv with $python"
    if [ -n "$uv" ]; then
        "$uv" venv --quiet --clear --python "$python" "$venv"
        return
    fi
    "$python" -c 'import ensurepip' >/dev/null 2>&1 ||
        fail "$python has no ensurepip, which venv needs. On Debian and Ubuntu: apt install python3-venv"
    "$python" -m venv --clear "$venv"
}

install_project() {
    say "installing Wane and what its extra $extra needs into $venv"
    if [ -n "$uv" ]; then
        "$uv" pip install --python "$venv/bin/python" --editable ".[$extra]"
        return
    fi
    # An environment that uv made has no pip.
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    # Of what pip says, the names of the packages are enough. The pipe would hide that it failed.
    failed=$({
        { "$venv/bin/python" -m pip install --disable-pip-version-check --editable ".[$extra]" || echo failed >&3; } |
            while read -r word next _; do
                case "$word $next" in
                    Collecting* | Processing*) echo "  ${next##*/}" >&2 ;;
                    "Installing collected") say "unpacking them" ;;
                esac
            done
    } 3>&1)
    [ -z "$failed" ] || fail "pip could not install Wane; what it needs is in pyproject.toml"
}

uv=$(command -v uv || true)
new_enough "$venv/bin/python" || make_environment
install_project
