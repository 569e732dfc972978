"""Checks that an evaluation can run here: keys, models, environment, base images, disk, bundle. Nothing is spent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

import platformdirs

from wane.core.errors import WaneError
from wane.installing import installation
from wane.prices import prices_of
from wane_research.evaluation import need_harbor
from wane_research.evaluation.running.config import RIVAL, Config, Task
from wane_research.evaluation.sandbox.dockerfile import parse
from wane_research.evaluation.sandbox.image import BASES, find_images
from wane_research.evaluation.sandbox.namespace import missing

_KEYS: Final = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
"""Variables of which one must be set, by provider."""

_FOR_A_BUNDLE: Final = 1.0
_FOR_IMAGES: Final = 5.0
_GB: Final = 1_000_000_000


def problems(config: Config, tasks: Sequence[Task], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the problems that would stop or falsify an evaluation, each with its remedy.

    `environ`: this machine's environment variables. Values are only checked for being empty.
    """
    problems = []
    try:
        need_harbor("wane eval run")
    except WaneError as error:
        problems.append(str(error))
    if not sys.platform.startswith("linux"):
        problems.append("Wane's bundle for the environments can only be made on Linux: run wane eval there")
    problems += [*_models(config, environ), *clients(config.models)]
    if config.environment.type == "linux":
        problems += _linux(config, tasks)
    elif config.environment.type == "docker":
        program = shutil.which("docker")
        if program is None:
            problems.append(
                "environment: docker is not installed; install it, or use environment: {type: linux} as root"
            )
        elif subprocess.run([program, "info"], capture_output=True, check=False).returncode:  # noqa: S603
            problems.append(
                "environment: docker does not answer: start its daemon, or add this user to the group docker"
            )
    return [*problems, *_room(platformdirs.user_cache_path("wane", appauthor=False), _FOR_A_BUNDLE, "Wane's bundle")]


def _models(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    values = {**environ, **dict.fromkeys(config.env, "set")}
    for name, value in config.env.items():
        if value.startswith("${") and not environ.get(value[2:-1]):
            yield f"env: {name} is {value}, which is not set here: export {value[2:-1]}=…"
    limited = [name for name in ("cost_per_task", "cost_per_run", "cost_total") if getattr(config.limits, name)]
    asked_by_wane = any(not strategy.startswith(RIVAL) for strategy in config.strategies)
    for model in config.models:
        provider = model.partition(":")[0]
        if asked_by_wane and not _is_provider(provider):
            yield (
                f"models: {model}: Pydantic AI knows no provider {provider!r}; correct it, or run only other agents "
                "(agent:NAME) with it"
            )
        variables = _KEYS.get(provider)
        if variables is not None and not any(values.get(name) for name in variables):
            yield f"models: no key for {model}: export {variables[0]}=… where this runs"
        if limited and prices_of(model) is None:
            yield (
                f"limits: no prices are known for {model}, so {', '.join(limited)} cannot hold; set minutes_per_task "
                "instead, or a limit at the provider"
            )


def _is_provider(name: str) -> bool:
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ImportError:  # its client is missing, which `clients` reports
        return True
    except ValueError:
        return False
    return True


def clients(models: Sequence[str]) -> Iterator[str]:
    """Yield the models whose client is not installed in a version that Pydantic AI can use.

    Another package may have brought an older one, with which every call would fail.
    """
    from packaging.requirements import Requirement

    for extra in dict.fromkeys(model.partition(":")[0].partition("-")[0] for model in models):
        for text in requires("pydantic-ai-slim") or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate() or not needed.marker.evaluate({"extra": extra}):
                continue
            try:
                installed = version(needed.name)
            except PackageNotFoundError:
                installed = ""
            if not needed.specifier.contains(installed or "0", prereleases=True):
                there = f"{installed} is installed" if installed else "it is not installed"
                remedy = installation().package_line(f"pydantic-ai-slim[{extra}]")
                yield f"models: {extra} needs {needed.name}{needed.specifier}, and {there}: {remedy}"


def _linux(config: Config, tasks: Sequence[Task]) -> Iterator[str]:
    if reason := missing():
        yield f"environment: linux cannot run here: {reason}. Use another type, such as docker or daytona"
    if config.environment.kwargs.get("network") == "own" and shutil.which("slirp4netns") is None:
        yield "environment: network: own needs slirp4netns: apt-get install slirp4netns"
    bases = Path(str(config.environment.kwargs.get("bases", BASES))).expanduser()
    reasons: dict[str, list[str]] = {}
    for task in tasks:
        try:
            text = (task.path / "environment" / "Dockerfile").read_text(encoding="utf-8")
            find_images(parse(text), bases)
        except (WaneError, OSError, UnicodeDecodeError) as error:
            reasons.setdefault(str(error), []).append(task.name)
    for reason, names in reasons.items():
        named = ", ".join(names[:3])
        if len(names) > 3:
            named += f" and {len(names) - 3:,} more"
        remedy = "exclude them"
        if "no root file system" in reason:
            remedy = "sudo research/scripts/eval_bases.sh makes the usual ones"
        yield f"tasks: {named}: {reason}; {remedy}"
    cache = Path(str(config.environment.kwargs.get("cache", bases / "cache"))).expanduser()
    yield from _room(cache, _FOR_IMAGES, "images and trials")
    if os.geteuid() == 0 and config.concurrency > 1 and config.environment.kwargs.get("network") != "own":
        yield (
            f"concurrency: {config.concurrency} concurrent tasks share this machine's ports, so their servers would "
            "collide; set concurrency: 1, or environment: {kwargs: {network: own}}"
        )


def _room(folder: Path, least: float, what: str) -> Iterator[str]:
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(parent, os.W_OK):
        yield f"{parent} cannot be written: {what} would be kept in {folder}"
    free = shutil.disk_usage(parent).free / _GB
    if free < least:
        yield f"{parent} has {free:.1f} GB free, and {what} need about {least:g} GB: make room, or name another folder"
