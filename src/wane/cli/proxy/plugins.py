"""`wane plugin`: gives an agent commands for what `wane choose` does, as a folder of Wane's own, or takes it away."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wane.cli import failure
from wane.cli.failure import InputError, UsageError
from wane.cli.proxy.proxy_commands import PluginOptions

_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "episodes": ("List the episodes in view, with their numbers", ""),
    "keep": ("Keep an episode in view, whatever the budget is", "keep"),
    "drop": ("Let an episode leave the view with the next request", "drop"),
    "release": ("Take back keep or drop", "release"),
}
"""What each command says of itself, and what it chooses."""

_MADE: Final = "Made by wane plugin install; wane plugin uninstall removes it."
_ANSWER: Final = "Tell the user exactly that, and do nothing else."


@dataclass(frozen=True, slots=True)
class Plugin:
    """The plugin of one agent.

    Attributes:
        locate: returns the folder that is the plugin's own, by the environment.
        files: returns the contents of its files by their paths in the folder, from the program that runs Wane. The
            first says who made it.
        use: what is typed in the agent.
    """

    locate: Callable[[Mapping[str, str]], Path]
    files: Callable[[str], dict[Path, str]]
    use: str


def manage_plugin(options: PluginOptions) -> int:
    """Install the plugin of an agent, or remove it."""
    plugin = PLUGINS.get(options.agent)
    if plugin is None:
        *others, last = PLUGINS
        known = f"there is a plugin for {', '.join(others)} and {last}, not for {options.agent!r}"
        raise UsageError(f"{known}; where an agent runs your own commands, as codex does, !wane choose needs none")
    if options.action not in ("install", "uninstall"):
        raise UsageError(f"what to do is {options.action!r}; write install or uninstall")
    folder, files = plugin.locate(os.environ), plugin.files(sys.executable)
    mark = folder / next(iter(files))
    if folder.exists() and (not mark.is_file() or _MADE not in mark.read_text(encoding="utf-8")):
        raise InputError(f"{folder} is not Wane's plugin; it is left as it is")
    if options.action == "install":
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"Installed in {folder}. In {options.agent}, started by wane run: {plugin.use}.\n")
        return failure.OK
    if not folder.exists():
        raise InputError(f"there is no plugin in {folder}")
    for name in files:
        (folder / name).unlink(missing_ok=True)
    for inner in (*{(folder / name).parent for name in files} - {folder}, folder):
        # What somebody else put there stays.
        if not any(inner.iterdir()):
            inner.rmdir()
    sys.stdout.write(f"Removed from {folder}.\n")
    return failure.OK


def _home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    named = environ.get(variable)
    return Path(named).expanduser() if named else Path.home() / default


MANIFEST: Final = Path(".claude-plugin", "plugin.json")
"""Where a plugin of Claude Code says its name. A folder below `skills` that has it is loaded as it is."""


def _lines(program: str, argument: str) -> Iterator[tuple[str, str, str]]:
    """Yield each command: its name, what it says of itself, and the shell's line that it runs.

    Args:
        program: what lists the episodes.
        argument: how the agent writes what was typed behind the command.
    """
    for name, (what, choice) in _COMMANDS.items():
        yield name, what, f"{program} {choice} {argument}" if choice else program


def _program(python: str) -> str:
    return f"{shlex.quote(python)} -m wane choose"


def claude_files(python: str) -> dict[Path, str]:
    """Return the files of Claude Code's plugin. Its commands are closed to the model."""
    manifest = {"name": "wane", "version": "1.0.0", "description": f"Keep an episode, or let it go. {_MADE}"}
    files = {MANIFEST: f"{json.dumps(manifest, indent=2)}\n"}
    program = _program(python)
    for name, what, call in _lines(program, '"$ARGUMENTS"'):
        hint = "argument-hint: NUMBER\n" if call != program else ""
        files[Path("commands", f"{name}.md")] = (
            f"---\ndescription: {what}\n{hint}disable-model-invocation: true\nallowed-tools: Bash({program}:*)\n---\n\n"
            f"Wane says:\n\n!`{call}`\n\n{_ANSWER}\n"
        )
    return files


def gemini_files(python: str) -> dict[Path, str]:
    """Return the commands of Gemini CLI, which quotes arguments for the shell; Qwen Code has the same form."""
    files = {}
    for name, what, call in _lines(_program(python), "{{args}}"):
        prompt = f"Wane says:\n\n!{{{call}}}\n\n{_ANSWER}"
        text = f"# {_MADE}\ndescription = {json.dumps(what)}\nprompt = {json.dumps(prompt)}\n"
        files[Path(f"{name}.toml")] = text
    return files


def opencode_files(python: str) -> dict[Path, str]:
    """Return the commands of OpenCode, which puts arguments into the shell's line as they were typed."""
    files = {}
    for name, what, call in _lines(_program(python), '"$1"'):
        head = f"---\n# {_MADE}\ndescription: {what}\n---\n\n"
        files[Path(f"{name}.md")] = f"{head}Wane says:\n\n!`{call}`\n\n{_ANSWER}\n"
    return files


def pi_files(python: str) -> dict[Path, str]:
    """Return the extension of pi. Its command runs Wane and shows what it says, without a turn of the model."""
    text = f"""\
// {_MADE}
export default function (pi: any) {{
  pi.registerCommand("wane", {{
    description: "List the episodes in view; keep NUMBER, drop NUMBER or release NUMBER",
    handler: async (args: string, ctx: any) => {{
      const words = args.split(/\\s+/).filter(Boolean);
      const ran = await pi.exec({json.dumps(python)}, ["-m", "wane", "choose", ...words]);
      ctx.ui.notify(`${{ran.stdout}}${{ran.stderr}}`.trim(), ran.code ? "error" : "info");
    }},
  }});
}}
"""
    return {Path("index.ts"): text}


def copilot_files(python: str) -> dict[Path, str]:
    """Return the extension of Copilot CLI. Its command shows what Wane says, without a turn of the model."""
    text = f"""\
// {_MADE}
import {{ execFile }} from "node:child_process";
import {{ joinSession }} from "@github/copilot-sdk/extension";

const choose = (words) => new Promise((done) => {{
  const program = {json.dumps(python)}, args = ["-m", "wane", "choose", ...words];
  execFile(program, args, (error, out, err) => done([error, `${{out}}${{err}}`.trim()]));
}});
const session = await joinSession({{
  commands: [{{
    name: "wane",
    description: "List the episodes in view; keep NUMBER, drop NUMBER or release NUMBER",
    handler: async ({{ args }}) => {{
      const [error, said] = await choose(args.split(/\\s+/).filter(Boolean));
      await session.log(said, {{ level: error ? "error" : "info", ephemeral: true }});
    }},
  }}],
}});
"""
    return {Path("extension.mjs"): text}


PLUGINS: Final[Mapping[str, Plugin]] = {
    "claude": Plugin(
        lambda environ: _home(environ, "CLAUDE_CONFIG_DIR", ".claude") / "skills" / "wane",
        claude_files,
        "/wane:episodes, /wane:keep NUMBER",
    ),
    "copilot": Plugin(
        lambda environ: _home(environ, "COPILOT_HOME", ".copilot") / "extensions" / "wane",
        copilot_files,
        "/wane, /wane keep NUMBER, once /experimental on has been typed there",
    ),
    "gemini": Plugin(
        lambda environ: _home(environ, "GEMINI_CLI_HOME", "") / ".gemini" / "commands" / "wane",
        gemini_files,
        "/wane:episodes, /wane:keep NUMBER",
    ),
    "opencode": Plugin(
        lambda environ: _home(environ, "XDG_CONFIG_HOME", ".config") / "opencode" / "commands" / "wane",
        opencode_files,
        "/wane/episodes, /wane/keep NUMBER",
    ),
    "pi": Plugin(
        lambda environ: _home(environ, "PI_CODING_AGENT_DIR", ".pi/agent") / "extensions" / "wane",
        pi_files,
        "/wane, /wane keep NUMBER",
    ),
    "qwen": Plugin(
        lambda environ: _home(environ, "QWEN_HOME", ".qwen") / "commands" / "wane",
        gemini_files,
        "/wane:episodes, /wane:keep NUMBER",
    ),
}
"""The plugins, by the agent's program."""
