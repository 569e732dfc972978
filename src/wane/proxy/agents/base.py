"""What is asked of an agent: its provider, and how to start it so that it asks the proxy instead."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from wane.core.errors import ConfigError
from wane.proxy.http.address import UpstreamUrl

Api = Literal["anthropic", "openai"]
"""Whose protocols an agent speaks; OpenAI's are two, and the base URL is the same."""

ANTHROPIC: Final = "https://api.anthropic.com"
OPENAI: Final = "https://api.openai.com/v1"

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Asked:
    """How the user would start the agent.

    Attributes:
        program: the program, as it was named.
        arguments: its arguments.
        environ: the environment.
        folder: the working directory.
        api: whose protocols it speaks, where the user says so.
        upstream: the provider, where the user says so.
    """

    program: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    api: Api | None = None
    upstream: str | None = None

    @property
    def home(self) -> Path:
        """The user's home directory."""
        return Path(self.environ.get("HOME") or self.environ.get("USERPROFILE") or Path.home())

    def place(self, variable: str, default: str) -> Path:
        """Return a directory that the environment may name, or else one of the home directory."""
        named = self.environ.get(variable)
        return Path(named).expanduser() if named else self.home / default

    def option(self, *names: str) -> str | None:
        """Return the value of an option of the agent's, as far as it is written `--name value` or `--name=value`."""
        found = None
        for argument, after in zip(self.arguments, (*self.arguments[1:], None), strict=False):
            if argument in names:
                found = after
            elif argument.startswith("--") and argument.partition("=")[0] in names and "=" in argument:
                found = argument.partition("=")[2]
        return found


@dataclass(frozen=True, slots=True)
class Start:
    """How to start the agent so that it asks the proxy.

    Attributes:
        before: arguments that go before the user's.
        environ: variables to set.
        note: what the user should know; empty as a rule.
    """

    before: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class Agent(Protocol):
    """An agent.

    Attributes:
        program: what its program is called.
        install: the command that installs it; empty if there is none to name.
        user_agents: how the header `user-agent` of its requests begins. It takes the usage that a reply reports for
            the size of its context, and compacts by it.
    """

    program: str
    install: str
    user_agents: tuple[str, ...]

    def upstream(self, asked: Asked) -> str:
        """Return the base URL of the provider that it would ask by itself.

        Raises:
            ConfigError: if it is set up for something that no proxy can stand before, or nothing tells.
        """
        ...

    def start(self, asked: Asked, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return how to start it.

        Args:
            asked: how the user would.
            proxy: the proxy's base URL, without a version.
            upstream: where the proxy sends requests to.
            private: a directory for files of this run, which nobody else can read.

        Raises:
            ConfigError: if it cannot be pointed at the proxy.
        """
        ...


def openai_base(proxy: str, upstream: UpstreamUrl) -> str:
    """Return the base URL for clients of OpenAI's protocols, which know paths without a version only.

    It ends with the version that the provider's own base URL ends with, so that both are told alike; with `/v1` where
    that is a host alone.
    """
    last = upstream.prefix.rpartition("/")[2]
    versioned = last[:1] == "v" and last[1:].isdigit()
    return f"{proxy}/{last}" if versioned else proxy if upstream.prefix else f"{proxy}/v1"


def around_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what to set for an agent to reach this machine itself, where its environment names a proxy for HTTP."""
    if not any(environ.get(name) or environ.get(name.upper()) for name in _PROXIES):
        return {}
    known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [host for host in known.split(",") if host.strip()]
    value = ",".join(hosts + [host for host in _LOOPBACK if host not in hosts])
    return {"no_proxy": value, "NO_PROXY": value}


def read_json(path: Path) -> dict[str, Any]:
    """Return an agent's settings; none if the file is not there or is of no use, which is the agent's to say."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def read_toml(path: Path) -> dict[str, Any]:
    """Return an agent's settings; none if the file is not there or is of no use, which is the agent's to say."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


def table(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a table within settings, by the names on the way; an empty one if there is none."""
    here: Any = data
    for name in names:
        here = here.get(name) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}


def text(data: Mapping[str, Any], name: str) -> str | None:
    """Return a text of settings; None if there is none."""
    value = data.get(name)
    return value if isinstance(value, str) and value else None


def cannot(program: str, what: str) -> ConfigError:
    """Return the error of an agent that cannot be run with a proxy."""
    return ConfigError(f"{program} cannot be run with a proxy: {what}")
