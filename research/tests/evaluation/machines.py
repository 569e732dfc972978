"""A small root file system made of this machine's programs, so that tests need no download."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import files
from pathlib import Path

from wane_research.evaluation import bundle

IMAGE = "tiny:1"
PYTHON_IMAGE = "python:3.13-slim-bookworm"
PROGRAMS = """
    bash sh cat chmod chown cp cut date dirname echo env find git grep head id ip kill ln ls mkdir mv nohup ps pwd
    readlink rm rmdir seq setpriv sleep sort tail tar tee test timeout touch tr true umount uname wc xargs
"""
PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""Distributions that pytest is made of."""


def make_base(bases: Path, image: str = IMAGE) -> Path:
    """Make the root file system of an image in a folder of bases."""
    root = bases / image
    for name in ("bin", "tmp", "etc", "root", "var/tmp", "usr/bin"):
        (root / name).mkdir(parents=True)
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/tmp:/bin/bash\n")
    (root / "etc" / "group").write_text("root:x:0:\nuser:x:1000:\n")
    for name in PROGRAMS.split():
        if source := shutil.which(name):
            shutil.copy2(source, root / "bin" / name)
            copy_libraries(Path(source), root)
    return root


def make_python_base(bases: Path, image: str = PYTHON_IMAGE) -> Path:
    """Make one that has a Python with pytest: that of the bundle, which is mounted in every environment."""
    root = make_base(bases, image)
    site = root / "usr" / "lib" / "site"
    for name in PYTEST:
        for file in files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), site / file)
    python = root / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH=/usr/lib/site exec {bundle.PLACE}/bin/python "$@"\n')
    python.chmod(0o755)
    return root


def copy_libraries(program: Path, root: Path) -> None:
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for place in re.findall(r"(/\S+) \(0x", told):
        target = root / place.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(os.path.realpath(place), target)
