"""The command line's grammar, made from flags and texts.

It uses argparse: another library would take longer to load than `wane plan` takes to run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias

from wane.cli import flags
from wane.cli.failure import UsageError
from wane.cli.flags import Flag
from wane.cli.help import agent_help, command_help, group_help

Values = dict[str, Any]
"""Values of the command line, by key; options that were not given are missing."""

_NAME: Final = "command"
_METAVAR: Final = "COMMAND"
_AGENT: Final = "agent_"


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, its help text, its flags, and the function that runs it and returns the exit code.

    A name of two words is that of a command in a group: `lab validate`; or of one that belongs to another command:
    `sessions prune`.
    """

    name: str
    text: str
    flags: tuple[Flag, ...]
    run: Callable[[Values], int]


def parse(
    args: Sequence[str], commands: Sequence[Command], groups: Mapping[str, str] | None = None
) -> tuple[str | None, Values]:
    """Return the name of the command and the values of its flags; without a command, None and those of the agent.

    Args:
        args: the command line.
        commands: the commands.
        groups: help text of each group of commands.

    Raises:
        UsageError: for a command line that is not understood.
        SystemExit: after printing help or the version.
    """
    known, unknown = _parser(commands, groups or {}).parse_known_args(args)
    values = vars(known)
    name: str | None = values.pop(_NAME, None)
    if unknown:
        raise UsageError(
            f"unrecognized arguments: {' '.join(unknown)}; see {' '.join(filter(None, ('wane', name)))} --help"
        )
    agent = {key.removeprefix(_AGENT): values.pop(key) for key in list(values) if key.startswith(_AGENT)}
    if name is None:
        return None, agent
    if agent:
        raise UsageError(f"options of the agent have no meaning before a command; see wane {name} --help")
    return name, values


class _Parser(argparse.ArgumentParser):
    """A parser that prints our own help, from `page`, and raises our own errors."""

    page: Callable[[], str] = str

    def format_help(self) -> str:
        return self.page()

    def error(self, message: str) -> NoReturn:
        lost = f"argument {_METAVAR}" in message and self.prog == "wane"
        task = " (a task is given with: wane -p TASK)" if lost else ""
        raise UsageError(f"{message}{task}; see {self.prog} --help")


_Choices: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _parser(commands: Sequence[Command], groups: Mapping[str, str]) -> argparse.ArgumentParser:
    from wane import __version__

    parser = _Parser("wane", allow_abbrev=False)
    parser.page = lambda: agent_help((command.name, command.text) for command in commands)
    parser.add_argument(*flags.VERSION.names, action="version", version=f"wane {__version__}")
    for flag in flags.AGENT:
        _add(parser, flag, _AGENT)
    choices = {"": parser.add_subparsers(prog="wane", dest=_NAME, metavar=_METAVAR, parser_class=_Parser)}
    parsers: dict[str, _Parser] = {}
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        if group not in choices and group in parsers:
            owner = parsers[group]
            choices[group] = owner.add_subparsers(
                prog=f"wane {group}", dest=_NAME, metavar=_METAVAR, parser_class=_Parser
            )
            # Without another word, it is the command itself.
            owner.set_defaults(**{_NAME: group})
        elif group not in choices:
            inside = [it for it in commands if it.name.startswith(f"{group} ")]
            choices[group] = _group(choices[""], group, groups.get(group, ""), inside)
        child = parsers[command.name] = choices[group].add_parser(name, allow_abbrev=False)
        child.page = partial(command_help, command.name, command.text, command.flags)
        # For a command in a group, the whole name instead of its last word.
        child.set_defaults(**{_NAME: command.name})
        for flag in command.flags:
            _add(child, flag)
    return parser


def _group(choices: _Choices, name: str, text: str, commands: Sequence[Command]) -> _Choices:
    parser = choices.add_parser(name, allow_abbrev=False)
    parser.page = lambda: group_help(name, text, ((command.name, command.text) for command in commands))
    return parser.add_subparsers(prog=f"wane {name}", dest=_NAME, metavar=_METAVAR, parser_class=_Parser, required=True)


def _add(parser: argparse.ArgumentParser, flag: Flag, prefix: str = "") -> None:
    options: Values = {}
    if flag.value:
        options |= {"metavar": flag.value, "type": flag.read, "choices": flag.choices or None}
        options["action"] = "append" if flag.repeatable else "store"
    else:
        options["action"] = "store_true"
    if flag.bare is not None:
        options |= {"nargs": "?", "const": flag.bare}
    if not flag.is_option:
        if flag.repeatable:
            options |= {"nargs": "+", "action": "extend"}
        parser.add_argument(flag.key, **options)
        return
    # Missing unless given, so that each default is set in one place: where it is used.
    parser.add_argument(*flag.names, dest=prefix + flag.key, default=argparse.SUPPRESS, **options)
