"""The interface of agents: the provider that an agent uses, and how to start it so that it uses the proxy instead."""

from __future__ import annotations

import json
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from wane.core.errors import ConfigError
from wane.proxy.settings import UpstreamUrl

Api = Literal["anthropic", "openai", "gemini"]
"""The vendor whose protocols an agent speaks; OpenAI's two protocols share a base URL."""

ANTHROPIC: Final = "https://api.anthropic.com"
OPENAI: Final = "https://api.openai.com/v1"
GOOGLE: Final = "https://generativelanguage.googleapis.com"


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """The user's command to start an agent.

    Attributes:
        program: the program, as the user wrote it.
        arguments: its arguments.
        environ: the environment.
        folder: the working directory.
        api: the agent's protocols, if the user gives them.
        upstream: the provider, if the user gives it.
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

    def directory(self, variable: str, default: str) -> Path:
        """Return the directory that an environment variable names, or else one in the home directory."""
        named = self.environ.get(variable)
        return Path(named).expanduser() if named else self.home / default

    def options(self, *names: str) -> list[str]:
        """Return the values of an option of the agent, written `--name value` or `--name=value`, in order."""
        values = []
        for number, argument in enumerate(self.arguments):
            name, equals, value = argument.partition("=")
            if argument in names and number + 1 < len(self.arguments):
                values.append(self.arguments[number + 1])
            elif equals and argument.startswith("--") and name in names:
                values.append(value)
        return values

    def option(self, *names: str) -> str | None:
        """Return the last value of an option; None if it is not given."""
        values = self.options(*names)
        return values[-1] if values else None


@dataclass(frozen=True, slots=True)
class Start:
    """How to start an agent so that it uses the proxy.

    Attributes:
        before: arguments to put before the user's.
        environ: variables to set.
        note: a note to the user; usually empty.
    """

    before: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class Agent(ABC):
    """An agent.

    Attributes:
        program: name of its program.
        install: the command that installs it; empty if unknown.
    """

    program: str
    install = ""

    @abstractmethod
    def upstream(self, command: AgentCommand) -> str:
        """Return the base URL of the provider that the agent uses without a proxy.

        Raises:
            ConfigError: if that provider is unknown, or cannot be used through a proxy.
        """

    @abstractmethod
    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return how to start the agent.

        Args:
            command: the user's command.
            proxy: the proxy's base URL, without a version.
            upstream: the provider to which the proxy sends requests.
            private: a directory for files of this run that only the user can read.

        Raises:
            ConfigError: if the agent cannot be pointed at the proxy.
        """


def openai_base(proxy: str, upstream: UpstreamUrl) -> str:
    """Return the proxy's base URL for clients of OpenAI's protocols, which expect the version in the base URL.

    It ends with the same version as the provider's base URL, or with `/v1` if that has no path.
    """
    last = upstream.prefix.rpartition("/")[2]
    if last[:1] == "v" and last[1:].isdigit():
        return f"{proxy}/{last}"
    return proxy if upstream.prefix else f"{proxy}/v1"


def around_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables for an agent to reach this machine directly, if its environment sets an HTTP proxy."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    if not any(environ.get(name) or environ.get(name.upper()) for name in names):
        return {}
    current = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [host for host in current.split(",") if host.strip()]
    value = ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost", "::1"]))
    return {"no_proxy": value, "NO_PROXY": value}


def read_json(path: Path) -> dict[str, Any]:
    """Return an agent's settings; empty if the file is missing or malformed, which the agent itself reports."""
    return _read(path, json.loads)


_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


def parse_jsonc(settings: str) -> Any:
    """Return JSON that may hold comments, and commas after the last entry.

    Raises:
        ValueError: for anything else.
    """
    for left_out in (_COMMENT, _TRAILING_COMMA):
        settings = left_out.sub(lambda match: match[1] or "", settings)
    return json.loads(settings)


def read_jsonc(path: Path) -> dict[str, Any]:
    """Return an agent's settings with comments in them, as `read_json` does."""
    return _read(path, parse_jsonc)


def read_toml(path: Path) -> dict[str, Any]:
    """Return an agent's settings, as `read_json` does."""
    return _read(path, tomllib.loads)


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        return parse_settings(path.read_text(encoding="utf-8"), parse)
    except (OSError, ValueError):
        return {}


def parse_settings(settings: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    """Return the table in a text of settings; empty if they are malformed."""
    try:
        data = parse(settings)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def table(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a nested table of settings by its path; empty if there is none."""
    value: Any = data
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def text(data: Mapping[str, Any], name: str) -> str | None:
    """Return a text from settings; None if it is missing or empty."""
    value = data.get(name)
    return value if isinstance(value, str) and value else None


def cannot(program: str, what: str) -> ConfigError:
    """Return the error for an agent that cannot be run with a proxy."""
    return ConfigError(f"{program} cannot be run with a proxy: {what}")
