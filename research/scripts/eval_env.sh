#!/bin/sh
# Make a second virtual environment for the tests that run benchmarks: Harbor needs Python 3.12 or newer.
#
#   research/scripts/eval_env.sh [VENV]        the default is .venv-eval
#
# EVAL_PYTHON names the interpreter; otherwise it is the first of python3 and python3.14 … python3.12 that is new
# enough, or one of pyenv's. If there is none, or something fails, those tests skip; the exit code is always 0.
set -u

venv=${1:-.venv-eval}
ready=$venv/.ready
[ ! -e "$ready" ] || [ pyproject.toml -nt "$ready" ] || [ research/pyproject.toml -nt "$ready" ] || exit 0

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${EVAL_PYTHON:-} python3 python3.14 python3.13 python3.12 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

python=$(find_python)
[ -n "$python" ] || { echo "eval environment: no Python 3.12 or newer; the tests that need Harbor will skip" >&2; exit 0; }
echo "eval environment: making $venv with $python" >&2
uv=$(command -v uv || true)
if [ -n "$uv" ]; then
    "$uv" venv --quiet --clear --python "$python" "$venv" &&
        "$uv" pip install --quiet --python "$venv/bin/python" --editable . --editable "./research[eval]"
else
    # An old pip takes many minutes to choose versions.
    "$python" -m venv --clear "$venv" && "$venv/bin/python" -m pip install --quiet --upgrade pip >/dev/null 2>&1 &&
        timeout 900 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
            --editable . --editable "./research[eval]" >"$venv/log" 2>&1
fi && touch "$ready" || echo "eval environment: could not be made; the tests that need Harbor will skip" >&2
exit 0
