"""The command line's grammar, made from commands and their options.

It uses argparse: another library would take longer to load than `wane plan` takes to run.
"""

from __future__ import annotations

import argparse
import inspect
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from functools import partial
from pkgutil import resolve_name
from typing import Any, Final, NoReturn

from wane.cli.failure import UsageError
from wane.cli.help_pages import lay_out_page, paragraphs
from wane.cli.shared_flags import HELP, VERSION
from wane.core.errors import ExtensionError
from wane.extensions import Extension, missing_error
from wane.flags import Declared, Flag, declare_flags, options_of

_NAME: Final = "command"
_METAVAR: Final = "COMMAND"
_PREFIX: Final = "agent."  # of the keys of the agent's options

_NEGATIVE: Final = re.compile(r"-\.?\d.*")
_ENDS: Final = re.compile(r"(?:--[\w-]+=|-\w+)--")
_SHORTEST: Final = 4  # characters of a beginning that stands for a name
LIKENESS: Final = 0.7  # least similarity of a misspelt name, as difflib measures it


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    A name of two words is that of a command in a group: `lab validate`; or of one that belongs to another command:
    `sessions prune`.

    Attributes:
        name: its name; empty for the agent, which starts without a command.
        declaration: `module:class` of its options, which declare its flags, and whose docstring is its help text;
            imported when a command line names it, or help does: to make the classes of all commands takes longer than
            most commands run.
        function: `module:function` of the function that takes the options and returns the exit code; imported when it
            runs. It raises a WaneError for what cannot be used or done, and `main` shows that to the user.
        other_text: a help text to use instead of the docstring.
        daily: the options that its help shows first, apart from the others.
        extension: what adds it; None for one of Wane's own.
    """

    name: str
    declaration: str
    function: str
    other_text: str = ""
    daily: tuple[str, ...] = ()
    extension: Extension | None = None

    @property
    def options(self) -> type[Any]:
        """The class of its options."""
        options: type[Any] = self._resolve(self.declaration)
        return options

    @property
    def text(self) -> str:
        """Its help text; paragraphs with an indented line are printed as they stand, others are filled."""
        return self.other_text or inspect.cleandoc(self.options.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first paragraph of its help text, for lists of commands."""
        return paragraphs(self.text)[0]

    def explain_argument(self, argument: str) -> str:
        """Return what an argument is, and an example with it, as they stand in the help: the end of a sentence."""
        meanings = [flag.help for flag in self.flags if argument in (flag.spelled, flag.value)]
        first = [meaning[:1].lower() + meaning[1:].partition(". ")[0].rstrip(".") for meaning in meanings]
        how = "".join(f": {meaning}" for meaning in first)
        for example in _EXAMPLES.findall(self.text):
            if example.startswith(f"wane {self.name} "):  # others go before or after it
                return f"{how}; for example: {example}"
        return how

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Its options and arguments, the daily ones first."""
        flags = (field.flag for field in declare_flags(self.options))
        return tuple(sorted(flags, key=lambda flag: flag.spelled not in self.daily))

    @property
    def usage(self) -> str:
        if not self.name:
            return "wane [OPTIONS] [COMMAND]"
        return " ".join(["wane", self.name, "[OPTIONS]", *(flag.value for flag in self.flags if not flag.is_option)])

    @property
    def run(self) -> Callable[[Any], int]:
        function: Callable[[Any], int] = self._resolve(self.function)
        return function

    def _resolve(self, name: str) -> Any:
        return resolve_name(name) if self.extension is None else self.extension.resolve(name)


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands with one first word, which does nothing by itself.

    Attributes:
        text: the help text of the group.
        commands: its commands, in the order of help.
    """

    text: str
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands that a line may name.

    Attributes:
        commands: all of them, in the order of help.
        groups: help texts of the groups among them, by name.
        refused: why commands of extensions cannot be used, by their first word.
        elsewhere: what to install for other commands, by their first word.
    """

    commands: Sequence[Command]
    groups: Mapping[str, str]
    refused: Mapping[str, ExtensionError]
    elsewhere: Mapping[str, str]


def parse(args: Sequence[str], agent: Command, catalogue: Commands) -> tuple[Command, Any]:
    """Return the command that a command line names and its options; the agent runs if it names none.

    Args:
        args: the command line without the program's name.
        agent: the agent.
        catalogue: the commands.

    Raises:
        ExtensionError: for a command of an extension that cannot be used.
        SystemExit: after printing help or the version.
    """
    parser = _parser(args, agent, catalogue)
    parser.check(args)
    parsed, extra = parser.parse_known_args(args)
    values = vars(parsed)
    name: str | None = values.pop(_NAME, None)
    if extra:
        program = f"wane {name}" if name else "wane"
        raise UsageError(f"{program} takes no more arguments, but there is {extra[0]!r}; see {program} --help")
    of_agent = {key.removeprefix(_PREFIX): value for key, value in values.items() if key.startswith(_PREFIX)}
    if name is None:
        return agent, options_of(agent.options, of_agent)
    command = next(command for command in catalogue.commands if command.name == name)
    if of_agent:
        how, words, at = f"see wane {name} --help", name.split(), parser.command_at
        behind = args[at : at + len(words)] == words and of_agent.keys() <= {
            field.key for field in declare_flags(command.options)
        }
        if behind:
            how = f"write: {shlex.join(['wane', *words, *args[:at], *args[at + len(words) :]])}"
        raise UsageError(f"options of the agent have no meaning before a command; {how}")
    return command, options_of(command.options, values)


class _Parser(argparse.ArgumentParser):
    """A parser that prints our own help, from `page`, and raises our own errors."""

    page: Callable[[], str] = str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = _NEGATIVE  # argparse's own takes `-1d` for an option
        self.names: list[str] = []  # of all of its commands
        self.commands: dict[str, _Parser] = {}  # those that the line may name
        self.refused: Mapping[str, ExtensionError] = {}
        self.elsewhere: Mapping[str, str] = {}  # what to install for other commands
        self.command_at = 0  # the place of the command in the line, once that was checked
        self.command: Command | None = None  # the one that it parses; None for a group, and for the agent

    def check(self, args: Sequence[str]) -> None:
        """Check the names of options and commands; argparse would complain about what follows a wrong one."""
        unknown, words = "", deque(args)
        while words and (word := words.popleft()) != "--":
            if _is_option(word):
                if _ENDS.fullmatch(word):  # argparse would give it an empty list
                    raise UsageError(f"{word} gives an option the value '--', which ends the options; give another one")
                action = self._last_option(word)
                if action is not None and words and (action.nargs is None or not _is_option(words[0])):
                    words.popleft()
            elif word in self.commands and unknown:
                break  # what follows is for a command that comes too late
            elif word in self.commands:
                self.command_at = len(args) - len(words) - 1
                self.commands[word].check(words)
                return
            elif word in self.refused:
                raise self.refused[word]
            elif self.names and not unknown:
                unknown = word
                if word in self.elsewhere:
                    raise missing_error(f"wane {word} needs {self.elsewhere[word]}", self.elsewhere[word])
        if unknown:
            hint = _hint(unknown, self.names)
            if self.prog == "wane" and hint == ".":
                hint = "; wane alone starts the chat, and wane -p TASK does one task."
            raise UsageError(f"unknown command {unknown!r}{hint} See {self.prog} --help")

    def _last_option(self, word: str) -> argparse.Action | None:
        """Return the option in a word whose value may be the next word; None if there is none."""
        actions = self._option_string_actions
        name, has_value, _ = word.partition("=")
        if name in actions:
            may_follow = not has_value and actions[name].nargs != 0
            return actions[name] if may_follow else None
        if not word.startswith("--") and word[:2] in actions:
            # Short options can be combined, and be followed by a value: `-yp TASK`, `-mMODEL`.
            is_switch = actions[word[:2]].nargs == 0
            return self._last_option(f"-{word[2:]}") if is_switch else None
        hint = _hint(name, [option for option in actions if option.startswith("--")])
        raise UsageError(f"unknown option {name}{hint} See {self.prog} --help")

    def format_help(self) -> str:
        return self.page()

    def error(self, message: str) -> NoReturn:
        missing = _MISSING.fullmatch(message)
        if missing:
            how = self.command.explain_argument(missing[1]) if self.command else ""
            raise UsageError(f"{missing[1]} is missing{how}; see {self.prog} --help")
        for pattern, words in _ERRORS.items():
            message = pattern.sub(words, message)
        raise UsageError(f"{message}; see {self.prog} --help")


_ERRORS: Final = {
    re.compile(r"argument (?:-\w/)?(\S+): expected one argument"): r"\1 needs a value",
    re.compile(r"argument (?:-\w/)?(\S+): ignored explicit argument (.*)"): r"\1 takes no value, but is given \2",
}
"""Our words for the errors of argparse."""

_MISSING: Final = re.compile(r"the following arguments are required: (.*)")
_EXAMPLES: Final = re.compile(r"^  (wane \S.*?)(?:  .*)?$", re.MULTILINE)
"""The examples in a help text, which what they do may follow."""


_OTHER_WORDS: Final = {
    "--port": "--listen",
    "--host": "--listen",
    "--html": "--output",
    "--since": "--days",
    "clear": "prune",
    "purge": "prune",
    "remove": "delete",
    "rm": "delete",
}
"""What other programs call an option or a command of ours."""


def _is_option(word: str) -> bool:
    """Return whether argparse takes a word for an option."""
    return len(word) > 1 and word.startswith("-") and " " not in word and not _NEGATIVE.fullmatch(word)


def _hint(word: str, names: Iterable[str]) -> str:
    """Return the end of a sentence that asks whether a similar name was meant; a period if none is similar."""
    if _OTHER_WORDS.get(word) in (names := list(names)):
        return f"; did you mean {_OTHER_WORDS[word]}?"
    # Dashes at the beginning would make all options alike.
    by_word = {name.lstrip("-"): name for name in names}
    matches = get_close_matches(word.lstrip("-"), by_word, 1, LIKENESS)
    if len(word) >= _SHORTEST:
        matches = [known for known, name in by_word.items() if name.startswith(word)] or matches
    return f"; did you mean {by_word[matches[0]]}?" if matches else "."


def _parser(args: Sequence[str], agent: Command, catalogue: Commands) -> _Parser:
    from wane import __version__

    commands, groups = catalogue.commands, catalogue.groups

    def first_page() -> str:
        # Commands of two words are listed in the help of the first word.
        outline = [(command.name, command.summary) for command in commands if " " not in command.name]
        outline += [(group, paragraphs(text)[0]) for group, text in groups.items()]
        outline += [(name, str(error)) for name, error in catalogue.refused.items()]
        return lay_out_page(agent.usage, agent.text, (*agent.flags, VERSION, HELP), outline)

    parser = _Parser("wane", allow_abbrev=False)
    parser.page = first_page
    parser.refused, parser.elsewhere = catalogue.refused, catalogue.elsewhere
    parser.add_argument(VERSION.spelled, action="version", version=f"wane {__version__}")
    words = set(args)
    parser.names = [command.name for command in commands if " " not in command.name] + list(groups)
    if not args or args[0] not in parser.names:
        for field in declare_flags(agent.options):
            _add(parser, field, _PREFIX)
    parsers: dict[str, _Parser] = {"": parser}
    choices = {"": parser.add_subparsers(prog="wane", dest=_NAME, metavar=_METAVAR, parser_class=_Parser)}

    def open_group(group: str, *, required: bool) -> None:
        choices[group] = parsers[group].add_subparsers(
            prog=f"wane {group}", dest=_NAME, metavar=_METAVAR, parser_class=_Parser, required=required
        )

    # Making a parser and reading flags takes time, so only commands that the line may name get theirs.
    for group in words.intersection(groups):
        owner = choices[""].add_parser(group, allow_abbrev=False)
        owner.page = partial(_group_page, group, groups[group], commands)
        parsers[group] = parser.commands[group] = owner
        open_group(group, required=True)
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        if group in parsers and group:
            parsers[group].names.append(name)
        if not words.issuperset(command.name.split()):
            continue
        if group not in choices:
            open_group(group, required=False)
            # It runs if no further word names one of its commands.
            parsers[group].set_defaults(**{_NAME: group})
        child = choices[group].add_parser(name, allow_abbrev=False)
        parsers[command.name] = parsers[group].commands[name] = child
        child.page = partial(_command_page, command, commands)
        child.command = command
        # For a command in a group, the whole name instead of its last word.
        child.set_defaults(**{_NAME: command.name})
        for field in declare_flags(command.options):
            _add(child, field)
    return parser


def _add(parser: argparse.ArgumentParser, field: Declared, prefix: str = "") -> None:
    flag = field.flag
    if field.kind is bool:
        options: dict[str, Any] = {"action": "store_false" if field.default is True else "store_true"}
    else:
        options = {"metavar": flag.value}
        options["action"] = "append" if field.repeatable else "store"
    if flag.bare is not None:
        options |= {"nargs": "?", "const": flag.bare}
    if not flag.is_option:
        if field.repeatable:
            options |= {"nargs": "+" if field.default is MISSING else "*", "action": "extend"}
        elif field.default is not MISSING:
            options |= {"nargs": "?", "default": field.default}
        parser.add_argument(field.key, **options)
        return
    # Missing from the result unless given, so that each default is set in one place: at the field.
    parser.add_argument(*flag.spelled.split(", "), dest=prefix + field.key, default=argparse.SUPPRESS, **options)


def _command_page(command: Command, commands: Sequence[Command]) -> str:
    members = _members(command.name, commands)
    return lay_out_page(command.usage, command.text, (*command.flags, HELP), members, len(command.daily))


def _group_page(group: str, text: str, commands: Sequence[Command]) -> str:
    return lay_out_page(f"wane {group} [OPTIONS] COMMAND", text, (HELP,), _members(group, commands))


def _members(group: str, commands: Iterable[Command]) -> list[tuple[str, str]]:
    """Return the name and the summary of each command that belongs to a group or another command."""
    return [(command.name, command.summary) for command in commands if command.name.startswith(f"{group} ")]
