"""Judges tool calls of many harnesses by the tool's name and the call's arguments."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from wane.core import ToolClass
from wane.tools.command_lines import judge_command, only_searches, patched_files
from wane.tools.judgement import Activity, Judgement
from wane.tools.paths import basename
from wane.tools.programs import word_set

SHELL_TOOLS: Final = word_set("""
    bash shell exec_command local_shell local_shell_call shell_command run_terminal_cmd run_command execute_command
    terminal run_shell_command execute_bash bash_execution bashexecution exec run_in_terminal container_exec
    run_bash sh powershell run_terminal_command
""")
"""Tools that run a command line."""

_EXPLORING: Final = word_set("""
    read read_file readfile view view_file open_file cat grep glob find ls fetch web_fetch webfetch web_search websearch
    recall notebookread read_many_files view_image task agent dispatch_agent explore toolsearch tool_search lsp
    list_dir codebase_search search_file_content semantic_search read_text_file spawn_agent invoke_agent subagent
""")
_ACTING: Final = word_set("""
    edit write write_file edit_file apply_patch multiedit multi_edit create_file write_to_file replace_in_file
    apply_diff notebookedit notebook_edit str_replace insert replace delete_file move_file rename_file search_replace
    insert_edit_into_file reapply
""")
_NEUTRAL: Final = word_set("""
    delimiter todowrite todoread todo_write todo_read write_todos taskcreate taskupdate tasklist taskget taskoutput
    taskstop update_plan enterplanmode exitplanmode exit_plan_mode askuserquestion ask_user ask_followup_question think
    skill write_stdin bashoutput killshell kill_shell bash_output sleep wait attempt_completion final_result finish
    update_topic save_memory sendmessage wait_agent list_agents send_message interrupt_agent followup_task
""")
_CHANGING_VERBS: Final = word_set("""
    write edit create update delete remove add set move rename replace insert apply post put send publish merge close
    save upload patch commit push
""")
_EDITORS: Final = word_set("str_replace_editor str_replace_based_edit_tool text_editor str_replace_editor_tool editor")
_PATH_KEYS: Final = (
    "file_path", "path", "filename", "file", "notebook_path", "target_file", "filepath", "relative_path",
    "absolute_path", "relative_workspace_path", "filePath", "paths", "files", "file_paths",
)  # fmt: skip
_DIRECTORY_KEYS: Final = ("workdir", "cwd", "working_directory", "directory")
_TEXT_KEYS: Final = ("pattern", "query", "url", "description", "name", "skill")


def judge_call(tool: str, arguments: str | None) -> Judgement:
    """Judge one tool call.

    Args:
        tool: the tool's name.
        arguments: its raw arguments: a JSON object, or plain text as for Codex's `apply_patch`.
    """
    name = bare_name(tool)
    fields = fields_of(arguments)
    if name in SHELL_TOOLS:
        return judge_command(_command(fields), _first_text(fields, _DIRECTORY_KEYS))
    if name == "apply_patch":
        files = patched_files(_first_text(fields, ("input", "patch", "diff")))
        return Judgement(Activity.ACT, (), files, basename(files[0]) if files else name)
    files = tuple(_texts(fields, _PATH_KEYS))
    activity = _activity(name, fields)
    hint = basename(files[0]) if files else _first_text(fields, _TEXT_KEYS) or name
    if activity is Activity.ACT:
        return Judgement(activity, (), files, hint)
    if activity is not Activity.EXPLORE:
        return Judgement(activity, hint=hint)
    if "pattern" in fields:
        # A search reads a path only if the path names a file.
        files = tuple(path for path in files if "." in basename(path))
    return Judgement(activity, files, (), hint)


def command_of(tool: str, arguments: str | None) -> str:
    """Return the command line that a call runs in a shell; empty if it runs none."""
    return _command(fields_of(arguments)) if bare_name(tool) in SHELL_TOOLS else ""


def class_of_call(tool: str, arguments: str | None) -> ToolClass | None:
    """Return `BULK` for a shell call whose command only searches or lists; None for any other call."""
    if not arguments or bare_name(tool) not in SHELL_TOOLS:
        return None
    return ToolClass.BULK if only_searches(_command(fields_of(arguments))) else None


def bare_name(tool: str) -> str:
    """Return a tool's name in lower case, without the server or namespace that it belongs to."""
    return tool.rpartition("__")[2].rpartition(".")[2].lower()


def _activity(name: str, fields: Mapping[str, Any]) -> Activity:
    if name in _EDITORS:
        return Activity.EXPLORE if fields.get("command") == "view" else Activity.ACT
    for activity, names in ((Activity.EXPLORE, _EXPLORING), (Activity.ACT, _ACTING), (Activity.NEUTRAL, _NEUTRAL)):
        if name in names:
            return activity
    verb = re.search(r"[a-z]+", name)
    if verb is not None and verb[0] in _CHANGING_VERBS:
        return Activity.ACT
    # An unknown tool counts as exploring, so that its output is kept longer.
    return Activity.EXPLORE


def _command(fields: Mapping[str, Any]) -> str:
    """Return the command line of a shell call; empty if it has none."""
    for key in ("command", "cmd", "input", "script", "code"):
        command = fields.get(key)
        if not command:
            continue
        if isinstance(command, list):
            words = [word for word in command if isinstance(word, str)]
            runs_line = len(words) > 2 and re.fullmatch(r"-\w*c", words[1])  # bash -lc LINE
            return words[2] if runs_line else shlex.join(words)
        return command if isinstance(command, str) else ""
    return ""


def fields_of(arguments: str | None) -> Mapping[str, Any]:
    """Return a call's arguments; text that is not a JSON object is put under `input`."""
    try:
        raw = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        raw = arguments
    return raw if isinstance(raw, dict) else {"input": raw}


def _texts(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the strings under some keys, including those in lists."""
    for key in keys:
        if (value := fields.get(key)) is None:
            continue
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            text = entry
            if isinstance(entry, dict):
                text = entry.get("path") or entry.get("file_path")
            if isinstance(text, str) and text:
                yield text


def _first_text(fields: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next(_texts(fields, keys), "")
