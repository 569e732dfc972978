#!/usr/bin/env bash
# uv 0.13.9: an archive of source on PyPI cannot be installed if a file in it has a colon in its name.
#
# Most would expect: what is on PyPI, what pip and earlier releases of uv install, and what every tool for archives unpacks, uv installs, too; a colon
# is an ordinary character in a name on Linux and macOS.
# What happens: `uv pip install mailman==3.3.8` ends with "archive member path rejected by name policy", on Linux as well, because its templates
# have names such as `domain:admin:notice:new-list.txt`. That release has no wheel, so there is no way around it but an older uv or pip; the message
# calls the archive an "Invalid tar file". uv 0.8.15 installs it, and Python's own `tarfile` unpacks it with its strictest filter. So a benchmark whose
# tests install their requirements with the newest uv, as `curl … | sh` brings it, fails from one day to the next.
#
# Seen:
#   uv 0.8.15 installs mailman 3.3.8: True
#   uv 0.13.9 installs mailman 3.3.8: False
#     extraction policy rejected input: archive member path rejected by name policy: "mailman-3.3.8/src/mailman/templates/ca/domain:admin:notice:new-list.txt"
#   tarfile with filter="data" unpacks the name: True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 0.8.15 0.13.9; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check "uv==$version"
done
python3 - "$folder" <<'PYTHON'
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

folder = Path(sys.argv[1])
installs = {}
for version in ("0.8.15", "0.13.9"):
    uv, target = folder / version / "bin" / "uv", folder / f"target-{version}"
    argv = [uv, "pip", "install", "--no-deps", "--target", target, "mailman==3.3.8"]
    env = {**os.environ, "UV_CACHE_DIR": str(folder / f"cache-{version}"), "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    installs[version] = done.returncode == 0 and (target / "mailman").is_dir()
    print(f"uv {version} installs mailman 3.3.8: {installs[version]}")
said = re.search(r"extraction policy.*", done.stderr)
print(f"  {said[0] if said else done.stderr}")

archive, name = io.BytesIO(), "a/domain:admin:notice:new-list.txt"
with tarfile.open(fileobj=archive, mode="w") as written:
    written.addfile(tarfile.TarInfo(name))
archive.seek(0)
with tarfile.open(fileobj=archive) as read:
    read.extractall(folder / "unpacked", filter="data")
unpacks = (folder / "unpacked" / name).is_file()
print(f'tarfile with filter="data" unpacks the name: {unpacks}')

seen = installs["0.8.15"] and not installs["0.13.9"] and said is not None and "name policy" in said[0] and unpacks
sys.exit(not seen)
PYTHON
