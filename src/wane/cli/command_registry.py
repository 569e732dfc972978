"""All commands, in the order of help: what each takes, and what runs it, by name.

The classes of their options are in the `…_commands.py` of each folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pkgutil import resolve_name
from typing import Any, Final

from wane.cli.parser import Command, CommandGroup, Commands
from wane.core.errors import ExtensionError
from wane.extensions import Extension, Kind, find_extensions, find_replacing

AGENT_TEXT: Final = """\
A coding agent that keeps its context within a budget, and tools that show how it does so.

Without a command, an interactive session starts in this directory. The agent marks its work as episodes. When the
window is over the budget, Wane evicts what is easiest to recover, by fixed rules, without a model call or a summary.
The session on disk keeps everything.

Examples:
  wane                                talk to the agent
  wane -p "make the tests pass" -y    do one task and print the answer
  wane -c                             resume your last session here
  wane demo                           watch it work, without a key or a network
  wane plan chat.json --budget 80k    what a pass would evict, and why

Exit codes:
  0    done
  1    it failed: a model error, a missing extra, a damaged session
  2    an option or the input cannot be used
  75   the model's provider is down, or the account has no money left
  130  stopped with Ctrl-C
"""

AGENT: Final = Command("", "wane.agent.options:AgentOptions", "wane.cli.main:run_agent", AGENT_TEXT)
"""What runs without a command."""

COMMANDS: Final = (
    Command("plan", "wane.cli.top_commands:PlanOptions", "wane.cli.lab.plan:run_plan"),
    Command("sessions", "wane.cli.top_commands:SessionsOptions", "wane.cli.sessions.listing:list_sessions"),
    Command("sessions prune", "wane.cli.top_commands:PruneOptions", "wane.cli.sessions.removing:prune_sessions"),
    Command("sessions delete", "wane.cli.top_commands:DeleteOptions", "wane.cli.sessions.removing:delete_sessions"),
    Command("show", "wane.cli.top_commands:ShowOptions", "wane.cli.sessions.show:show_session"),
    Command("verify", "wane.cli.top_commands:VerifyOptions", "wane.cli.sessions.sent_requests:verify_session"),
    Command("proxy", "wane.cli.proxy.proxy_commands:ProxyCommandOptions", "wane.cli.proxy.proxy_command:run_proxy"),
    Command("proxy status", "wane.cli.proxy.team_commands:StatusOptions", "wane.cli.proxy.team:show_status"),
    Command("proxy tokens", "wane.cli.proxy.team_commands:TokensOptions", "wane.cli.proxy.team:list_tokens"),
    Command("proxy tokens add", "wane.cli.proxy.team_commands:AddTokenOptions", "wane.cli.proxy.team:add_token"),
    Command("proxy tokens limit", "wane.cli.proxy.team_commands:LimitTokenOptions", "wane.cli.proxy.team:limit_token"),
    Command(
        "proxy tokens revoke", "wane.cli.proxy.team_commands:RevokeTokenOptions", "wane.cli.proxy.team:revoke_token"
    ),
    Command("proxy forget", "wane.cli.proxy.team_commands:ForgetOptions", "wane.cli.proxy.team:forget_name"),
    Command("proxy log", "wane.cli.proxy.team_commands:LogOptions", "wane.cli.proxy.team:show_log"),
    Command(
        "run",
        "wane.cli.proxy.proxy_commands:RunOptions",
        "wane.cli.proxy.run:run_agent",
        daily=("--budget", "--recall", "--shadow", "--max-cost"),
    ),
    Command(
        "statusline", "wane.cli.proxy.proxy_commands:StatuslineOptions", "wane.cli.proxy.statusline:print_statusline"
    ),
    Command("choose", "wane.cli.proxy.proxy_commands:ChooseOptions", "wane.cli.proxy.choosing:choose_episode"),
    Command("plugin", "wane.cli.proxy.proxy_commands:PluginOptions", "wane.cli.proxy.plugins:manage_plugin"),
    Command("report", "wane.cli.lab.lab_commands:ReportOptions", "wane.cli.lab.report:run_report"),
    Command("view", "wane.cli.lab.lab_commands:ViewOptions", "wane.cli.lab.view:run_view"),
    Command("replay", "wane.cli.lab.lab_commands:ReplayOptions", "wane.cli.lab.replay:run_replay"),
    Command("sweep", "wane.cli.lab.lab_commands:SweepOptions", "wane.cli.lab.replay:run_sweep"),
    Command("tune", "wane.cli.lab.lab_commands:TuneOptions", "wane.cli.lab.tune:run_tune"),
    Command("doctor", "wane.cli.lab.lab_commands:DoctorOptions", "wane.cli.lab.doctor:run_doctor"),
    Command("demo", "wane.cli.top_commands:DemoCommandOptions", "wane.cli.demo.demo_command:run_demo"),
    Command("words", "wane.cli.top_commands:WordsOptions", "wane.cli.terminal.glossary:print_words"),
)
"""Wane's own, in the order of help."""

ELSEWHERE: Final[Mapping[str, str]] = {"eval": "wane-research[eval]", "lab": "wane-research"}
"""What to install for commands of Wane's documentation that another distribution adds, by their first word."""

FIRST_WORDS: Final = frozenset(command.name.partition(" ")[0] for command in COMMANDS)
"""Names that no extension can take."""


_NAME: Final = re.compile(r"[\w-]+")

_OWN_NAMES: Final[Mapping[Kind, str]] = {
    "strategy": "wane.strategies.registry:STRATEGY_NAMES",
    "reader": "wane.lab.names:READER_NAMES",
    "store": "wane.proxy.store:SCHEMES",
    "command": "wane.cli.command_registry:FIRST_WORDS",
}


def find_commands(args: Sequence[str] | None = None) -> Commands:
    """Return the commands that a command line may name, in the order of help; all of them without a line.

    Extensions are not looked for if the line begins with a command of Wane's own.
    """
    commands, groups = list(COMMANDS), dict[str, str]()
    refused: dict[str, ExtensionError] = {}
    extensions: Mapping[str, Extension] = {}
    if args is None or (args and args[0] not in FIRST_WORDS):
        refused = dict(find_replacing("command", FIRST_WORDS))
        extensions = find_extensions("command", FIRST_WORDS)
    for name, extension in extensions.items():
        try:
            added = load_command(extension)
        except ExtensionError as error:
            refused[name] = error
            continue
        if isinstance(added, CommandGroup):
            groups[name] = added.text
            commands += added.commands
        else:
            commands.append(added)
    return Commands(commands, groups, refused, ELSEWHERE)


def find_ignored(args: Sequence[str], options: Any) -> Iterator[str]:
    """Yield a sentence for each extension that is not used, as what a command line names is Wane's own.

    Args:
        args: the command line.
        options: its options, an instance of a dataclass; their defaults count as named.
    """
    values = [value for key in fields(options) if isinstance(value := getattr(options, key.name), str)]
    words = set(_NAME.findall(" ".join([*args[1:], *values])))
    for kind, place in _OWN_NAMES.items():
        named = words if kind != "command" else set(args[:1])
        if not named.isdisjoint(find_extensions(kind, ())):  # else nobody needs the names of Wane's own
            own: Collection[str] = resolve_name(place)
            yield from (str(error) for _, error in find_replacing(kind, named.intersection(own)))


def load_command(extension: Extension) -> Command | CommandGroup:
    """Return what an extension adds: a command of its name, or the commands whose first word that is."""
    added = extension.load()
    if isinstance(added, CommandGroup):
        commands = tuple(replace(command, extension=extension) for command in added.commands)
        if all(command.name.startswith(f"{extension.name} ") for command in commands):
            return replace(added, commands=commands)
    elif isinstance(added, Command) and added.name == extension.name:
        command = replace(added, extension=extension)
        extension.resolve(command.declaration)
        return command
    raise extension.refusal(
        f"{extension.value} is no wane.cli.parser.Command with the name {extension.name!r}, and no CommandGroup of "
        "commands whose first word that is"
    )
