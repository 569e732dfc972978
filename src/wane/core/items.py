"""Items, the units of a history (R1), and the classes of tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wane.core.errors import ConfigError
from wane.core.light import light_dataclass


class Kind(StrEnum):
    """What an item is.

    A `NOTICE` is text that the harness, not a person, put in the user's or the system's place (R15).
    """

    SYSTEM = "system"
    USER = "user"
    NOTICE = "notice"
    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"
    RESULT = "result"


ASSISTANT: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL})
"""Kinds of the items of an assistant message."""

WORK: Final = ASSISTANT | {Kind.RESULT}
"""Kinds of the items of a model's work: its messages, and the results of its calls."""


class ToolClass(StrEnum):
    """How recoverable a tool's output is; it decides the level at which the output leaves (R9).

    `BULK` is large and enumerable (searches, listings). `ARTIFACT` is smaller and can be produced again
    (reads, commands, unknown tools). `DURABLE` records an effect on the environment and stays until its
    episode is removed. `PERSON` asks a person, whose answer counts like a turn of theirs (R21).
    """

    BULK = "bulk"
    ARTIFACT = "artifact"
    DURABLE = "durable"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Standing:
    """A statement of a notice that holds until something replaces it (R15).

    Attributes:
        kind: its subject, such as `"plan mode"`. The latest notice of a kind replaces earlier ones.
        adds: whether it only adds to what earlier notices of its kind state, as a list of new tools does.
    """

    kind: str
    adds: bool = False


@light_dataclass(frozen=True, slots=True)
class Item:
    """One unit of the history.

    Attributes:
        kind: what the item is.
        tokens: its tokens in a request.
        call_id: for a call and its result, the provider's id that pairs them.
        tool: for a call, the tool's name.
        arguments: for a call of `delimiter`, the raw JSON arguments; optional for other tools.
        message: ordinal of the message that the item came from. Items of one assistant message share
            it; None joins an assistant item to the assistant items right before it.
        needs: items that must stay as long as this one does, as offsets from this one (R12): a call whose signed
            thinking block stands two items earlier has `(-2,)`. An offset to a later item stays within the message.
        needed_by: items of earlier messages that need this one, likewise: the calls of a turn need the answer that
            ends it (R12b).
        tool_class: for a call, the class that its arguments imply, such as `BULK` for a shell command that only
            searches; None if they imply none. A class that the user set for the tool takes precedence.
        standing: for a notice, its statements that hold until they are replaced (R15); empty for any other item.
        person: for a result, whether a person gave it (R21).
        loads: for a result, names of the tools that it brought into the model's view (R15).
        withdraws: names of the tools that are no longer offered, as the item says (R15).
    """

    kind: Kind
    tokens: int
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    message: int | None = None
    needs: tuple[int, ...] = ()
    tool_class: ToolClass | None = None
    standing: tuple[Standing, ...] = ()
    person: bool = False
    loads: tuple[str, ...] = ()
    withdraws: tuple[str, ...] = ()
    needed_by: tuple[int, ...] = ()


DELIMITER: Final = "delimiter"
"""Name of the one tool by which the agent marks its work (paper, section 4.2)."""

RECALL: Final = "recall"
"""Name of the tool that brings back content that has left the view."""

OWN_TOOLS: Final = frozenset({DELIMITER, RECALL})
"""The tools that Wane gives to a model, and whose calls it answers."""

INVALID_JSON: Final = "INVALID_JSON"
"""The only key of an object in which arguments that are not JSON go to a provider, as Anthropic recommends."""

_BULK = """grep glob find ls list_files list_directory search_files find_files web_search
    rg ripgrep list_dir grep_search glob_search file_search codebase_search search_file_content
    websearch recall"""
# The tools that a tool search loads stay available only while its result is in view.
_DURABLE = """edit write write_file edit_file apply_patch multiedit
    multi_edit create_file write_to_file replace_in_file apply_diff notebookedit notebook_edit
    toolsearch tool_search"""

# Claude Code and Kimi Code; Gemini CLI, Copilot CLI and VS Code; Qwen Code and Mistral Vibe; Codex; OpenCode; Cline
# before 3 and Roo Code; Cline; Strands; Google ADK; smolagents; Agno.
_PERSON = """askuserquestion
    ask_user askuser ask_questions ask_user_question request_user_input request_user_input_async question
    ask_followup_question ask_question handoff_to_user adk_request_input request_input adk_request_confirmation
    get_user_choice ask_human human_input user_input get_user_input"""

DEFAULT_TOOL_CLASSES: Final[Mapping[str, ToolClass]] = {
    **dict.fromkeys(_BULK.split(), ToolClass.BULK),
    **dict.fromkeys(_DURABLE.split(), ToolClass.DURABLE),
    **dict.fromkeys(_PERSON.split(), ToolClass.PERSON),
}
"""Classes of known tools by lower-case name; any other tool is an artifact."""


def read_tool_classes(given: Mapping[str, ToolClass | str] | None) -> dict[str, ToolClass]:
    """Return the classes that a user set, by lower-case tool name.

    Args:
        given: class by tool name; case is ignored, and a class may be given by its value.

    Raises:
        ConfigError: for a class that does not exist, a name that is empty, or one with two classes.
    """
    table: object = {} if given is None else given
    if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table):
        raise ConfigError(f'tool_classes is {given!r:.80}; it must be a table such as {{"run_query": "bulk"}}')
    classes = dict[str, ToolClass]()
    for name, value in table.items():
        try:
            tool_class = ToolClass(value)
        except ValueError:
            names = ", ".join(member.value for member in ToolClass)
            raise ConfigError(f"tool {name!r} has the class {value!r}; a class is one of: {names}") from None
        if not name or name != name.strip():
            raise ConfigError(f"tool_classes has the name {name!r}; it must be a tool's, without spaces around it")
        if classes.setdefault(name.lower(), tool_class) is not tool_class:
            raise ConfigError(
                f"tool_classes has two classes for {name.lower()!r}, as case is ignored; give one of them"
            )
    return classes
