#!/bin/sh
# Install the project, editable and with one extra, into a virtual environment, which is made if needed.
#
#   scripts/install.sh VENV EXTRA [RESEARCH]
#
# RESEARCH is an extra of the distribution in research/, which is installed too then.
#
# It uses uv if that is installed, otherwise venv and pip. PYTHON names the interpreter; otherwise it is the first of
# python3, python3.14 … python3.11 that is new enough.
set -eu

venv=$1
extra=$2
research=${3:-}
oldest=3.11

new_enough() {
    # It must be run: a launcher may exist for a version that does not.
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
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not Python $oldest or newer"
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    # uv can download one.
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
    say "installing Wane with its extra $extra into $venv"
    set -- --editable ".[$extra]" ${research:+--editable "./research[$research]"}
    if [ -n "$uv" ]; then
        "$uv" pip install --python "$venv/bin/python" "$@"
        return
    fi
    # An environment that uv made has no pip.
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    # Python compiles what it imports; compiling everything, as pip does, takes a third of the time. Show only the names of
    # the packages. pip's failure goes around the pipe, which would hide it.
    failed=$({
        {
            "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile "$@" || echo failed >&3
        } |
            while read -r word next _; do
                case "$word $next" in
                    Collecting* | Processing*) echo "  ${next##*/}" >&2 ;;
                    "Installing collected") say "unpacking the packages" ;;
                esac
            done
    } 3>&1)
    [ -z "$failed" ] || fail "pip could not install Wane"
}

uv=$(command -v uv || true)
new_enough "$venv/bin/python" || make_environment
install_project
