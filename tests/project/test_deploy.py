"""The image is built with versions that are written down, and that fit what the package asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

import wane

ROOT = Path(wane.__file__).parents[2]


def test_the_versions_of_the_image_are_pinned_and_fit() -> None:
    lines = (ROOT / "deploy" / "constraints.txt").read_text().splitlines()
    pins = dict(re.fullmatch(r"([a-z0-9-]+)==([\w.]+)", line).groups() for line in lines if line[:1] != "#")  # type: ignore[union-attr]
    build = (ROOT / "deploy" / "Containerfile").read_text()
    installed = re.search(r"--constraint /src/deploy/constraints\.txt[^[]*\[([\w,]+)\]", build)
    assert installed is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = list(project["dependencies"])
    for extra in installed[1].split(","):
        texts += project["optional-dependencies"][extra]
    environment = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux", "extra": ""}
    for requirement in map(Requirement, texts):
        if requirement.name == "wane" or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert name in pins, f"{name} is not pinned; run make pins"
        assert requirement.specifier.contains(pins[name]), f"{name} does not fit; run make pins"
