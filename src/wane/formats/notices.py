"""Tells notices: text that a harness, not a person, put in a person's or the system's place (R15).

Only marks tell them. Text without a mark is the user's; so is text that only mentions a mark, or that holds a person's
words beside one. The marks are one table per client. Every row names where it was seen: in requests of the client's
real program that went through the proxy; in that program itself; or in a recorded session. `docs/notices.md` lists
them. Every mark counts in every format, whichever client sent the text, so a mark that one client took over from
another needs no second row.

A second table, `REJECTIONS`, tells the words of a person that come as a tool's result (R21). What no mark tells is the
tool's. A host names tools of its own with the class `person`, and a framework's format sets `Part.person` where the
framework itself says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

from wane.core import Standing


class MarkForm(StrEnum):
    """How a mark stands in a text; white space around the text is ignored."""

    SECTION = "section"
    """The text consists of one or several sections, each beginning with a `mark` and ending with its `end`."""
    LINE = "line"
    """A line that may follow sections."""
    START = "start"
    """The text begins with `mark` and, if there is one, ends with `end`."""
    WHOLE = "whole"
    """The text is exactly `mark`."""
    BEHIND = "behind"
    """The text follows a tool's result in the same message, and that result begins with `mark`."""
    MEDIA = "media"
    """The text is exactly `mark`, and the images and files behind it in the same message are a tool's."""
    PERSON = "person"
    """A text or section that begins with `mark` holds a person's words, whatever other marks it has."""


@dataclass(frozen=True, slots=True)
class NoticeMark:
    """One row.

    Attributes:
        what: what it marks.
        mark: the characters to look for; a leading `*` stands for a word, any other `*` for up to 200 characters on
            the same line.
        source: where it was seen.
        form: how it stands in a text.
        end: the characters at the end of the text or section.
        system: whether it counts only in system and developer messages, where no person types.
        standing: what a notice with this mark states that holds until it is replaced (R15); None if nothing.
    """

    what: str
    mark: str
    source: str
    form: MarkForm = MarkForm.SECTION
    end: str = ""
    system: bool = False
    standing: Standing | None = None


def _tag(name: str, what: str, source: str, *, system: bool = False, standing: Standing | None = None) -> NoticeMark:
    """Return the row of a section between tags; a name that ends with a space stands for a tag with attributes."""
    opening = f"<{name}" if name.endswith(" ") else f"<{name}>"
    return NoticeMark(what, opening, source, end=f"</{name.strip()}>", system=system, standing=standing)


def _start(mark: str, what: str, source: str, end: str = "", *, system: bool = False) -> NoticeMark:
    return NoticeMark(what, mark, source, MarkForm.START, end, system)


def _states(mark: str, kind: str, source: str, what: str = "", *, adds: bool = False) -> NoticeMark:
    """Return the row of a system message that states what holds; `adds` says that earlier ones of the kind hold too."""
    return NoticeMark(what or kind, mark, source, MarkForm.START, system=True, standing=Standing(kind, adds))


_CLAUDE: Final = "requests of Claude Code 2.1.329"
_CLAUDE_PROGRAM: Final = "the program of Claude Code 2.1.329"
_CLAUDE_NOW: Final = "requests of Claude Code 2.1.329 and 2.1.330, across `/compact` and changes of mode"

_CLAUDE_332: Final = "the program of Claude Code 2.1.332"

_CODEX: Final = "requests of Codex 0.169.0"
_CODEX_PROGRAM: Final = "the program of Codex 0.169.0"
_CODEX_171: Final = "the program of Codex 0.171.0"
_CODEX_SOURCE: Final = "the source of Codex, `core/src/context`"
_CODEX_RECORDED: Final = "recorded sessions of Codex 0.140 to 0.142"
_COPILOT: Final = "the program of Copilot CLI 1.0.102"
_GEMINI: Final = "requests of Gemini CLI 0.61.0"
_GEMINI_PROGRAM: Final = "the program of Gemini CLI 0.61.0"
_GEMINI_SOURCE: Final = "the source of Gemini CLI 0.56, `core/src`"
_INSPECT_SOURCE: Final = "the source of Inspect AI 0.3.285, `agent/_types.py`"
_KIMI: Final = "requests of Kimi Code 2.1.0"
_KIMI_PROGRAM: Final = "the program of Kimi Code 2.1.0"
_OPENCODE: Final = "requests of OpenCode 1.18.33"
_OPENCODE_PROGRAM: Final = "the program of OpenCode 1.18.33"
_OPENCODE_SOURCE: Final = "the source of OpenCode, `session/prompt`"
_PI_PROGRAM: Final = "the program of pi 0.87.1"
_QWEN: Final = "requests of Qwen Code 0.24.4"
_QWEN_PROGRAM: Final = "the program of Qwen Code 0.24.4"

ASIDES: Final = ("[SUGGESTION MODE: Suggest what the user ", "Managed memory has TWO directories.")
"""How the last message begins of a request in which a client asks something of its own, beside the session."""

CLAUDE_CODE: Final = (
    _tag("system-reminder", "reminders, listings, instructions, hooks' context, files shown again", _CLAUDE),
    _tag("task-notification", "the result of a sub-agent or a background command", "a recorded session of 2.1.217"),
    NoticeMark(
        "the line after it in older versions",
        "Full transcript available at: *",
        "a recorded session of 2.1.17",
        MarkForm.LINE,
    ),
    NoticeMark(
        "the line after it in later ones",
        "Read the output file to retrieve the result: *",
        "recorded sessions of 2.1.49",
        MarkForm.LINE,
    ),
    _tag("local-command-stdout", "output of a slash command", _CLAUDE),
    _tag("local-command-stderr", "output of a slash command", _CLAUDE_PROGRAM),
    _tag("local-command-caveat", "the sentence ahead of a slash command that ran locally", _CLAUDE),
    _tag("bash-stdout", "output of a command that a person ran with `!`", _CLAUDE),
    _tag("bash-stderr", "output of a command that a person ran with `!`", _CLAUDE),
    _tag("bash-exit-code", "how it ended, from another device", _CLAUDE_332),
    _tag("ide_opened_file", "the file that is open in the editor", _CLAUDE_PROGRAM),
    _tag("ide_selection", "what is selected in the editor", _CLAUDE_PROGRAM),
    _tag("teammate-message ", "messages of other agents of a team", _CLAUDE_PROGRAM),
    _tag("cross-session-message ", "messages of other sessions", _CLAUDE_PROGRAM),
    _tag("agent-message ", "messages of its other agents", _CLAUDE_332),
    _start("Another Claude session sent a message", "messages of other sessions, with advice on them", _CLAUDE_332),
    _tag("mcp-resource ", "a resource of an MCP server that a person named", _CLAUDE_332),
    _tag("interrupted-output", "the answer that was cut off, when the session is continued", _CLAUDE_332),
    _tag("tick", "when it works by itself, the time", _CLAUDE_332),
    _start("Base directory for this skill: ", "the body of a skill", _CLAUDE),
    NoticeMark("the body of a skill or a command that the model called", "Launching skill: ", _CLAUDE, MarkForm.BEHIND),
    NoticeMark("the tools that a search loaded", "Tool loaded.", _CLAUDE, MarkForm.WHOLE),
    _start(
        "This session is being continued from a previous conversation that ran out of context.",
        "the summary of a compaction",
        _CLAUDE,
    ),
    _start("[SYSTEM NOTIFICATION - NOT USER INPUT]", "notifications without a tag", _CLAUDE),
    _start("[MESSAGE FROM NON-USER SOURCE - NOT USER INPUT]", "messages that no person wrote", _CLAUDE_PROGRAM),
    _start(ASIDES[0], "the task of a fork that guesses the next prompt", _CLAUDE_332),
    _start("Output token limit hit. Resume directly", "an answer was cut off", _CLAUDE_332),
    _start("Your tool call was malformed and could not be parsed.", "a call was malformed", _CLAUDE_332),
    _start("The previous response failed to produce a valid tool call.", "the same", _CLAUDE_332),
    _start("[Your previous response had no visible output.", "an answer said nothing", _CLAUDE_332),
    _start("You ended the turn without calling SendUserMessage.", "a turn ended without an answer", _CLAUDE_332),
    _start("[structured-output-enforce] You MUST call the ", "the same, with an answer by schema", _CLAUDE_332),
    _start("The PermissionDenied hook indicated you may retry", "what a hook says about a refused call", _CLAUDE_332),
    _start("This session is being continued from another machine.", "a session that was moved", _CLAUDE_332),
    _start("[earlier conversation truncated for compaction retry]", "where a compaction has cut", _CLAUDE_332),
    _start("Stop hook feedback:", "what a hook says at the end of a turn", _CLAUDE),
    _start("Operation stopped by hook: ", "a hook stopped a prompt", "a recorded session of 2.1.7"),
    _start("TeammateIdle hook feedback:", "what a hook says about a teammate", _CLAUDE_PROGRAM),
    _start("TaskCreated hook feedback:", "what a hook says about a task", _CLAUDE_PROGRAM),
    _start("TaskCompleted hook feedback:", "what a hook says about a task", _CLAUDE_PROGRAM),
    NoticeMark("a person interrupted the turn", "[Request interrupted by user]", _CLAUDE_PROGRAM, MarkForm.WHOLE),
    NoticeMark("a person interrupted a call", "[Request interrupted by user for tool use]", _CLAUDE, MarkForm.WHOLE),
    NoticeMark("where an image of the message is stored", "[Image: source: *]", _CLAUDE, MarkForm.WHOLE),
    NoticeMark("the same", "[Image source: *]", _CLAUDE_332, MarkForm.WHOLE),
    NoticeMark("how an image was scaled", "[Image: original *x*, displayed at *]", _CLAUDE_332, MarkForm.WHOLE),
    _start(
        "Caveat: The messages below were generated by the user while running local commands.",
        "the caveat of older versions, without a tag",
        "recorded sessions of 2.1.7 to 2.1.45, there with a tag",
    ),
    # With Opus 4.8 and 5, Haiku 5.5 and Fable 5 reminders are system messages without a tag, several in one message.
    _start("<total_tokens>", "the tokens left", _CLAUDE, system=True),
    _start("* hook additional context: ", "hooks' context", _CLAUDE, system=True),
    _start("* hook success: ", "hooks' output", _CLAUDE, system=True),
    _start("* hook blocking error from command: ", "hooks' errors", _CLAUDE_PROGRAM, system=True),
    _start("* hook stopped continuation: ", "a hook stopped the turn", _CLAUDE_PROGRAM, system=True),
    _states("# Environment\nYou have been invoked", "environment", _CLAUDE_NOW),
    _states("You are powered by the model ", "model", _CLAUDE_NOW),
    _states("Today's date is ", "date", _CLAUDE_NOW),
    _states("The date has changed. ", "date", _CLAUDE_PROGRAM),
    _states("Codebase and user instructions are shown below.", "project instructions", _CLAUDE_NOW),
    _states("As you answer the user's questions, you can use", "session context", _CLAUDE_PROGRAM),
    _states("The session context ", "session context", _CLAUDE_PROGRAM),
    _states("Attribution for git commits and pull requests", "attribution", _CLAUDE_NOW),
    _states("From here on, do not add attribution lines", "attribution", _CLAUDE_PROGRAM),
    _states("The following deferred tools are available", "tools", _CLAUDE_PROGRAM),
    _states("The following deferred tools are ", "tools", _CLAUDE_NOW, "more tools, or fewer", adds=True),
    _states("The following tools ", "tools", _CLAUDE_PROGRAM, "more tools, or fewer", adds=True),
    _start("Some available tools' schemas are not loaded", "a reminder of tools", _CLAUDE_PROGRAM, system=True),
    _states("Available agent types for the Agent tool:", "agents", _CLAUDE_NOW),
    _states("New agent types are now available", "agents", _CLAUDE_PROGRAM, "more agents", adds=True),
    _states("The following agent types are no longer available", "agents", _CLAUDE_PROGRAM, "fewer agents", adds=True),
    _states("The following skills are available", "skills", _CLAUDE_NOW),
    _states("The following skills are also available", "skills", _CLAUDE_PROGRAM, "more skills", adds=True),
    _start("The following skills ", "bodies of skills again", _CLAUDE, system=True),
    _states("# MCP Server Instructions", "MCP servers", _CLAUDE_PROGRAM, "instructions of MCP servers", adds=True),
    _start("The following MCP servers ", "the state of MCP servers", _CLAUDE_PROGRAM, system=True),
    _start("The task tools haven't been used recently.", "a reminder of tasks", _CLAUDE_PROGRAM, system=True),
    _start("The TodoWrite tool hasn't been used recently.", "a reminder of tasks", _CLAUDE_PROGRAM, system=True),
    _start("Note: * changed on disk since you last read it.", "files that changed", _CLAUDE_PROGRAM, system=True),
    _start("Note: * was read before the last conversation", "files that were read", _CLAUDE_PROGRAM, system=True),
    _states("Plan mode is active. ", "plan mode", _CLAUDE_NOW),
    _states("## Exited Plan Mode", "plan mode", _CLAUDE_NOW, "the end of plan mode"),
    _start("Plan mode still active ", "a reminder of plan mode, which is stated before", _CLAUDE_PROGRAM, system=True),
    _start("## Re-entering Plan Mode", "plan mode, which is stated right after it", _CLAUDE_PROGRAM, system=True),
    _start("A plan file exists from plan mode", "plan mode", _CLAUDE_PROGRAM, system=True),
    _states("## Auto Mode Active", "auto mode", _CLAUDE_PROGRAM),
    _states("## Exited Auto Mode", "auto mode", _CLAUDE_PROGRAM, "the end of auto mode"),
    _states("Ultracode is ", "ultracode", _CLAUDE_332),
    _start("Result of calling the ", "a file that a person named", _CLAUDE_332, system=True),
    _start("Called the ", "its name", _CLAUDE_332, system=True),
    _start("Full contents of resource:", "a resource of an MCP server that a person named", _CLAUDE_332, system=True),
    _start("Note: The file * was too large", "files that were cut", _CLAUDE_332, system=True),
    _start("Retrieved for possible relevance", "memories", _CLAUDE_332, system=True),
    _start("Background memory consolidation updated", "changes of memories", _CLAUDE_332, system=True),
    _start("The user included the keyword ", "a keyword of a prompt", _CLAUDE_332, system=True),
    _start("The user named this session ", "the name of the session", _CLAUDE_332, system=True),
    _start('Task "', "the state of sub-agents", _CLAUDE_332, system=True),
    _start("Task * (type: ", "the state of background commands", _CLAUDE_332, system=True),
    _start("Token usage: ", "the tokens left", _CLAUDE_332, system=True),
    _start("USD budget: ", "the dollars left", _CLAUDE_332, system=True),
    _start("Output tokens \N{EM DASH} turn: ", "the tokens of answers", _CLAUDE_332, system=True),
    _start("<new-diagnostics>", "what the editor found wrong", _CLAUDE_PROGRAM, system=True),
    _start("The user selected the ", "what is selected in the editor", _CLAUDE_PROGRAM, system=True),
    _start("The user opened the file ", "the file that is open in the editor", _CLAUDE_PROGRAM, system=True),
    _start("Background agent ", "the state of sub-agents", _CLAUDE_PROGRAM, system=True),
    _start("Background shell ", "the state of background commands", _CLAUDE_PROGRAM, system=True),
    NoticeMark(
        "a prompt that was queued while the agent was busy",
        "The user sent a new message while you were working:",
        _CLAUDE,
        MarkForm.PERSON,
    ),
    NoticeMark(
        "such a prompt at the end of a tool's result, for models before Opus 4.8",
        "<system-reminder>\nThe user sent a new message while you were working:",
        f"{_CLAUDE} with Haiku 4.5",
        MarkForm.PERSON,
    ),
    *(
        NoticeMark(what, f"{opening}{mark}", _CLAUDE_332, MarkForm.PERSON)
        for opening in ("", "<system-reminder>\n")
        for mark, what in (
            ("A message arrived in the bound thread while you were working:", "a person's message in Slack"),
            ("Messages arrived in the bound thread while you were working:", "several of them"),
            # By the client's own words not the user's; but a channel may be the chat in which the user writes.
            ("A message arrived from ", "a message in a channel, such as Telegram"),
        )
    ),
)

OPENCODE: Final = (
    _states("# Plan Mode - System Reminder", "plan mode", _OPENCODE_SOURCE),
    _states("Your operational mode has changed from plan to build.", "plan mode", _OPENCODE_SOURCE, "its end"),
    NoticeMark(
        "a prompt that was queued while the agent was busy",
        "<system-reminder>\nThe user sent the following message:",
        "the source of OpenCode, `session/prompt.ts`",
        MarkForm.PERSON,
    ),
    NoticeMark(
        "what it says after a compaction of its own",
        "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed.",
        _OPENCODE,
        MarkForm.WHOLE,
    ),
    _start(
        "The previous request exceeded the provider's size limit due to large media attachments.",
        "the same, where images were too large",
        _OPENCODE_PROGRAM,
    ),
    _start("Called the Read tool with the following input: ", "the name of a file that a person attached", _OPENCODE),
    NoticeMark(
        "images and files that a tool gave", "Attached media from tool result:", _OPENCODE_PROGRAM, MarkForm.MEDIA
    ),
    _start("Read tool failed to read ", "a file that could not be attached", _OPENCODE_PROGRAM),
    _start("Reading MCP resource: ", "the name of a resource that a person attached", _OPENCODE_PROGRAM),
    _start("[Binary MCP resource ", "a resource that is not text", _OPENCODE_PROGRAM),
    _start("Failed to read MCP resource ", "a resource that could not be attached", _OPENCODE_PROGRAM),
    _start(
        "Use the above message and context to generate a prompt and call the task tool with subagent: ",
        "what it says behind a prompt that names a sub-agent",
        _OPENCODE_PROGRAM,
    ),
    _start("<path>", "a file that a person attached", _OPENCODE, "</content>"),
    _tag("task ", "the result of a background sub-agent", _OPENCODE_PROGRAM),
    NoticeMark(
        "what it says behind a sub-agent that a slash command started",
        "Summarize the task tool output above and continue with your task.",
        _OPENCODE_PROGRAM,
        MarkForm.WHOLE,
    ),
    NoticeMark(
        "what it says ahead of a command that a person ran with `!`",
        "The following tool was executed by the user",
        _OPENCODE_PROGRAM,
        MarkForm.WHOLE,
    ),
    NoticeMark(
        "a plan was approved",
        "The plan at * has been approved, you can now edit files. Execute the plan",
        _OPENCODE_PROGRAM,
        MarkForm.WHOLE,
    ),
)

CODEX: Final = (
    NoticeMark(
        "AGENTS.md",
        "# AGENTS.md instructions",
        _CODEX,
        MarkForm.START,
        "</INSTRUCTIONS>",
        standing=Standing("project instructions"),
    ),
    _tag("user_instructions", "AGENTS.md, in older versions", _CODEX_SOURCE, standing=Standing("project instructions")),
    # It may state only what has changed.
    _tag("environment_context", "the environment", _CODEX, standing=Standing("environment", adds=True)),
    _tag("turn_aborted", "a person interrupted the turn", _CODEX),
    NoticeMark("the body of a skill", "<skill>\n<name>", _CODEX, end="</skill>"),
    _tag("user_shell_command", "a command that a person ran with `!`, and its output", _CODEX),
    _tag("image_resize_notice", "how an image was scaled", _CODEX_171),
    _tag("current_time_reminder", "the time", _CODEX_171),
    _tag("rollout_budget", "the tokens left", _CODEX_171),
    _tag("agent_message_board_notification", "news of other agents", _CODEX_171),
    _tag("subagent_notification", "the result of a sub-agent, in older versions", _CODEX_PROGRAM),
    _tag("hook_prompt ", "what a hook says at the end of a turn", _CODEX_SOURCE),
    _tag("goal_context", "the goal again, in older versions", _CODEX_SOURCE),
    _tag("codex_internal_context ", "what extensions tell the model", _CODEX),
    _start(
        "Another language model started to solve this problem and produced a summary of its thinking process.",
        "the summary of a compaction",
        _CODEX_PROGRAM,
    ),
    _tag("permissions instructions", "what is permitted", _CODEX, system=True, standing=Standing("permissions")),
    _tag(
        "collaboration_mode",
        "the mode, such as plan mode",
        _CODEX,
        system=True,
        standing=Standing("collaboration mode"),
    ),
    _tag("personality_spec", "the personality", _CODEX_RECORDED, system=True, standing=Standing("personality")),
    _tag("model_switch", "a change of the model", _CODEX_PROGRAM, system=True, standing=Standing("model")),
    _tag("apps_instructions", "listings of apps", _CODEX_RECORDED, system=True, standing=Standing("apps")),
    _tag("skills_instructions", "listings of skills", _CODEX, system=True, standing=Standing("skills")),
    _tag("plugins_instructions", "listings of plugins", _CODEX_RECORDED, system=True, standing=Standing("plugins")),
    _tag("tools", "listings of tools", _CODEX, system=True, standing=Standing("tools", adds=True)),
    _tag("multi_agent_role", "the agent's role among others", _CODEX, system=True, standing=Standing("agent role")),
    _tag("multi_agent_mode", "whether to use other agents", _CODEX, system=True, standing=Standing("multi-agent mode")),
    _tag("persistent_mode", "a mode", _CODEX_PROGRAM, system=True, standing=Standing("persistent mode")),
    _tag("git_attribution", "attribution", _CODEX_PROGRAM, system=True, standing=Standing("attribution")),
    _tag("environments_instructions", "environments", _CODEX_PROGRAM, system=True, standing=Standing("environments")),
    _tag("token_budget", "the tokens left", _CODEX_PROGRAM, system=True),
    _tag("context_window", "the tokens left", _CODEX_PROGRAM, system=True),
    _tag("context_window_reminder", "the tokens left", _CODEX_PROGRAM, system=True),
    NoticeMark("the goal that a person set", '<codex_internal_context source="user_goal">', _CODEX, MarkForm.PERSON),
)

COPILOT_CLI: Final = (
    _tag("system_notification", "the result of a background command", "a recorded session of Copilot CLI"),
    _tag("system_reminder", "instructions of a folder, and reminders of tools", _COPILOT),
    _tag("tools_changed_notice", "a change of the model", _COPILOT),
    _tag("mode_changed_notice", "a change of the mode", _COPILOT, standing=Standing("mode")),
    _tag("working_directory_changed", "a change of the folder", _COPILOT, standing=Standing("working directory")),
    _tag("user_shell_command_output", "a command that a person ran with `!`, and its output", _COPILOT),
    _tag("todo_status", "the state of its plan", _COPILOT),
    _tag("active_workflows", "the state of background work", _COPILOT),
)

PI: Final = (
    NoticeMark(
        "images that a tool gave", "Attached image(s) from tool result:", "the program of pi 1.6.0", MarkForm.MEDIA
    ),
    _start(
        "The conversation history before this point was compacted into the following summary:",
        "the summary of a compaction",
        _PI_PROGRAM,
        "</summary>",
    ),
    _start(
        "The following is a summary of a branch that this conversation came back from:",
        "the summary of a branch that was left",
        _PI_PROGRAM,
        "</summary>",
    ),
)

GEMINI_CLI: Final = (
    _tag("session_context", "the date, the system, the folders and the project's instructions", _GEMINI),
    _tag("hook_context", "hooks' context", _GEMINI_SOURCE),
    _tag("state_snapshot", "the summary of a compression", _GEMINI_SOURCE),
    _start(
        "I ran the following shell command:\n```sh",
        "a command that a person ran with `!`, and its output",
        f"{_GEMINI_PROGRAM}, and of Qwen Code 0.24.4",
    ),
    _start("Background execution update:\n<background_output>", "the output of a background command", _GEMINI_PROGRAM),
    _start("[System: You previously ", "an answer said nothing", _GEMINI_PROGRAM),
    _start("- **Workspace Directories:**\n", "folders that were added", _GEMINI_PROGRAM),
    _start("Here is the user's editor context as a JSON object.", "what is open in the editor", _GEMINI_SOURCE),
    _start("Here is a summary of changes in the user's editor context", "what has changed there", _GEMINI_SOURCE),
    _start("System: Potential loop detected. Details: ", "the same calls again and again", _GEMINI_SOURCE),
    NoticeMark(
        "where its own reduction of the history has cut",
        "[Continuing from previous AI thoughts...]",
        _GEMINI_SOURCE,
        MarkForm.WHOLE,
    ),
)

QWEN_CODE: Final = (
    _start(
        "<state_snapshot>",
        "the summary of a compression",
        _QWEN,
        "do not acknowledge the summary, do not re-introduce, do not greet the user again.",
    ),
    _start("Recently accessed file (full current content embedded):", "files shown again after it", _QWEN),
    _start("The following files were recently accessed before context was compacted.", "their names", _QWEN_PROGRAM),
    _start("Recent visual snapshots preserved from before context was compacted", "images shown again", _QWEN_PROGRAM),
    NoticeMark(
        "go on, after it", "Continue with the prior task using the context above.", _QWEN_PROGRAM, MarkForm.WHOLE
    ),
    _tag("background-tasks", "the state of sub-agents after it", _QWEN_PROGRAM),
    _tag("plan-mode-active", "plan mode, after it", _QWEN_PROGRAM, standing=Standing("plan mode")),
    _tag("qwen:user-prompt-submit-context", "hooks' context", _QWEN_PROGRAM),
    _start(ASIDES[1], "the task of a fork that keeps memories", _QWEN),
    _start(ASIDES[0], "the task of a fork that guesses the next prompt", _QWEN),
)

KIMI_CODE: Final = (
    _start(
        "The conversation so far has been compacted to free up context. What follows is your own working summary",
        "the summary of a compaction",
        _KIMI,
    ),
    _tag("notification ", "the result of a background task or a sub-agent", _KIMI_PROGRAM),
    _tag("hook_result ", "what a hook says about a prompt", _KIMI_PROGRAM),
    NoticeMark(
        "a person's answer to a question that was asked in the background",
        "<notification * category=*>\nTitle: Background question answered",
        _KIMI_PROGRAM,
        MarkForm.PERSON,
    ),
)

INSPECT: Final = (
    _start(
        "Please proceed to the next step using your best judgement. If you believe you have completed the task",
        "a model that called no tool is told to go on",
        _INSPECT_SOURCE,
        "tool with your final answer.",
    ),
    NoticeMark(
        "the same for an agent that submits nothing",
        "Please proceed to the next step using your best judgement.",
        _INSPECT_SOURCE,
        MarkForm.WHOLE,
    ),
)

MARKS: Final[Mapping[str, tuple[NoticeMark, ...]]] = {
    "Claude Code": CLAUDE_CODE,
    "Codex": CODEX,
    "Copilot CLI": COPILOT_CLI,
    "Gemini CLI": GEMINI_CLI,
    "Inspect AI": INSPECT,
    "Kimi Code": KIMI_CODE,
    "OpenCode": OPENCODE,
    "pi": PI,
    "Qwen Code": QWEN_CODE,
}
"""All tables, by client."""

CLAUDE_CODE_PERSON: Final = "human"
"""Origin that Claude Code records for what a person typed (2.1.217, 2.1.329); older versions record none."""

CODEX_PERSON: Final = "user."
"""Prefix of the kinds that Codex gives to a person's content (requests of 0.169.0)."""

CODEX_UNTOLD: Final = "unknown"
"""Kind that Codex gives to content that it cannot classify."""

CODEX_TASK: Final = "Message Type: NEW_TASK"
"""Beginning of a message with which one Codex agent gives another a task; the task is the other's user turn."""

_ROWS: Final = tuple(chain.from_iterable(MARKS.values()))


def _pattern(marks: Iterable[str]) -> str:
    patterns = (re.sub(r"^\\\*", r"\\S{1,200}?", re.escape(mark)) for mark in marks)
    return "|".join(pattern.replace(r"\*", r"[^\n]{0,200}?") for pattern in patterns)


class _CompiledMarks:
    """The marks that count in messages of one role, compiled for matching."""

    def __init__(self, rows: Iterable[NoticeMark]) -> None:
        rows = tuple(rows)
        sections = [row for row in rows if row.form is MarkForm.SECTION]
        self._ends = {row.mark: row.end for row in sections}
        self._section = re.compile(rf"\s*({_pattern(self._ends)})")
        lines = [row.mark for row in rows if row.form is MarkForm.LINE]
        self._line = re.compile(rf"\s*\n(?:{_pattern(lines)})[ \t]*(?=\n|\Z)")
        self._start = re.compile(
            rf"\s*(?:{_pattern(row.mark for row in rows if row.form is MarkForm.START and not row.end)})"
        )
        self._framed = [(row.mark, row.end) for row in rows if row.form is MarkForm.START and row.end]
        self._whole = re.compile(
            rf"\s*(?:{_pattern(row.mark for row in rows if row.form in (MarkForm.WHOLE, MarkForm.MEDIA))})\s*"
        )
        self._persons = re.compile(_pattern(row.mark for row in rows if row.form is MarkForm.PERSON))

    def tell(self, text: str) -> bool:
        """Whether a text is entirely the harness's."""
        if self._start.match(text) or self._whole.fullmatch(text) or self._is_sections(text):
            return True
        stripped = text.strip()
        return any(stripped.startswith(mark) and stripped.endswith(end) for mark, end in self._framed)

    def _is_sections(self, text: str) -> bool:
        """Whether it is one section after another. Each ends at its first end mark, so words between are found."""
        position = 0
        while match := self._section.match(text, position):
            end = self._ends[match[1]]
            close = text.find(end, match.end())
            if close < 0 or self._persons.match(text, match.start(1)):
                return False
            position = close + len(end)
            while line := self._line.match(text, position):
                position = line.end()
        return position > 0 and not text[position:].strip()


_STATING: Final = tuple(row for row in _ROWS if row.standing is not None)
_SECTION_ENDS: Final = {row.mark: row.end for row in _ROWS if row.form is MarkForm.SECTION and row.mark.endswith(">")}
_SECTION: Final = re.compile("|".join(map(re.escape, _SECTION_ENDS)))
_BEHIND: Final = tuple(row.mark for row in _ROWS if row.form is MarkForm.BEHIND)
_PERSONS: Final = re.compile(_pattern(row.mark for row in _ROWS if row.form is MarkForm.PERSON))
_MEDIA: Final = tuple(row.mark for row in _ROWS if row.form is MarkForm.MEDIA)
_OPENING: Final = "<system-reminder>"
_CLOSING: Final = "</system-reminder>"

INDEX_OPENING: Final = f"{_OPENING}\nThis has left your context window"
"""How Wane's index of evicted content begins (R20)."""

INDEX_CLOSING: Final = f"\n{_CLOSING}"
"""How it ends."""


@cache
def compiled_marks(*, system: bool) -> _CompiledMarks:
    """Return the marks that count in a system's or a person's place; most commands need at most the latter."""
    return _CompiledMarks(row for row in _ROWS if system or not row.system)


@cache
def compiled_statements() -> re.Pattern[str]:
    """Return the pattern of all marks that state something, with a group for each."""
    return re.compile("|".join(f"(?P<r{at}>{_pattern([row.mark])})" for at, row in enumerate(_STATING)))


def is_notice(text: str, *, system: bool = False) -> bool:
    """Return whether a text is entirely the harness's.

    Args:
        text: the text, or one of several texts of a message.
        system: whether it stands in the system's place, not in a person's: more marks count there.
    """
    return compiled_marks(system=system).tell(text)


def stated_in(text: str, *, system: bool = False) -> tuple[Standing, ...]:
    """Return what a notice states that holds until it is replaced (R15).

    A mark counts at the beginning of the text, of what is between `<system-reminder>` tags, and, in the system's place,
    of a paragraph: Claude Code joins its reminders there with blank lines.
    """
    stated: dict[Standing, None] = {}
    for beginning in _beginnings(text, system=system):
        match = compiled_statements().match(beginning.lstrip())  # of the first row that fits
        if match and match.lastgroup and (standing := _STATING[int(match.lastgroup[1:])].standing):
            stated[standing] = None
    return tuple(stated)


def _beginnings(text: str, *, system: bool) -> Iterator[str]:
    remaining = text.strip()
    while match := _SECTION.match(remaining):
        body, _, behind = remaining[match.end() :].partition(_SECTION_ENDS[match[0]])
        yield body.lstrip() if match[0] == _OPENING else remaining
        remaining = behind.lstrip()
    yield from remaining.split("\n\n") if system else (remaining,)


_WITHDRAWN: Final = re.compile(r"The following (?:deferred )?tools are no longer available([^<]*?)(?:\n\n|<|\Z)")
_TOOL_NAME: Final = re.compile(r"(?:- )?([\w.:/-]{1,200}?)(?:: .*)?")


def withdrawn_in(text: str) -> tuple[str, ...]:
    """Return the names of the tools that a notice says are no longer offered (R15).

    Claude Code lists them (2.1.332): behind the colon, separated by commas, or each in a line of its own.
    """
    names: dict[str, None] = {}
    for match in _WITHDRAWN.finditer(text):
        head, *lines = match[1].split("\n")
        for entry in (*head.rpartition(":")[2].split(","), *lines):
            if name := _TOOL_NAME.fullmatch(entry.strip()):
                names[name[1]] = None
    return tuple(names)


def has_notice_behind(result: str) -> bool:
    """Return whether a tool's result says that its output is the next text of the same message."""
    return result.startswith(_BEHIND)


def introduces_media(text: str) -> bool:
    """Return whether the images and files behind a text in its message are a tool's: some APIs take no such results."""
    return text.strip() in _MEDIA


def is_persons(text: str) -> bool:
    """Return whether a text is marked as a person's, which outweighs all other marks."""
    return _PERSONS.match(text.lstrip()) is not None


def has_prompt(result: str) -> bool:
    """Whether a prompt that a person sent while the agent was busy stands at the end of a tool's result.

    For models that take no system messages, Claude Code appends its reminders, and such prompts, to a result.
    """
    output = result.rstrip()
    while output.endswith(_CLOSING) and (start := output.rfind(_OPENING)) >= 0:
        if is_persons(output[start:]):
            return True
        output = output[:start].rstrip()
    return False


class Rejection(NamedTuple):
    """What a client writes around what a person says of a call: a reason for refusing it, or another plan.

    Attributes:
        mark: how the result begins, or what stands in it.
        source: where it was seen.
        inside: whether it may stand anywhere in the result.
    """

    mark: str
    source: str
    inside: bool = False


REJECTIONS: Final = (
    Rejection("To tell you how to proceed, the user said:", "the program of Claude Code 2.1.332", inside=True),
    Rejection("was NOT written to the file). The user said:", "the same, of a sub-agent's calls", inside=True),
    Rejection(
        "The user rejected permission to use this specific tool call with the following feedback: ",
        "the program of OpenCode 1.18.33",
        inside=True,
    ),
    Rejection("## Approved Plan (edited by user):", "a plan that a person changed, the same", inside=True),
    Rejection("The user rejected this tool call. User feedback: ", "the program of Copilot CLI 1.0.102"),
    Rejection(". The user provided the following feedback: ", "the same, of plans", inside=True),
    Rejection("User rejected the plan. Feedback:", "the program of Kimi Code 2.1.0", inside=True),
    Rejection("Plan rejected. User feedback:", "the program of Gemini CLI 0.61.0"),
    Rejection("The user denied this operation and provided the following feedback:", "the source of Cline 3"),
    Rejection("User rejected the tool call for `", "the source of LangChain 1.5.2, `human_in_the_loop.py`"),
    Rejection(" was rejected by the user. With user feedback: ", "the source of Haystack 3.4.1", inside=True),
    Rejection(": the user refused it and says: ", "Wane's chat", inside=True),
)
"""Rejections and approvals with a person's words, by client."""

_INSIDE: Final = tuple(row.mark for row in REJECTIONS if row.inside)
_BEGINNINGS: Final = tuple(row.mark for row in REJECTIONS if not row.inside)


def is_persons_result(text: str) -> bool:
    """Return whether a tool's result holds what a person said when refusing or approving the call."""
    # Marks are looked for one by one: a pattern of all of them takes ten times as long, and results may be large.
    if text.lstrip().removeprefix("Error: ").startswith(_BEGINNINGS):
        return True
    return any(map(text.__contains__, _INSIDE))
