"""What each native format knows: fields of messages and types of contents. Other content is refused by name.

A format takes any message apart and counts what it does not know, because a proxy must pass on what its client sends.
Where a program gives messages of its own, content that nobody understands would be lost without a word: a call in
another format's form is never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wane.core.errors import FormatError

LEAVE_OUT: Final = ". If the model need not see it, leave it out"
"""The advice to whoever writes a message with content that no format knows."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of one format.

    Attributes:
        format: its name.
        fields: by role, the fields of a message that may carry content.
        contents: by role, the types of the objects in a message's `content`.
        items: types of what stands in a history besides messages.
        metadata: fields of answers that carry no content; they are not sent back.
        blocks: by type, the fields of a content, an item or a call that may carry content; those of other types are
            not checked.
        results: by type of a content of a result, the fields of which it has one.
    """

    format: str
    fields: Mapping[str, frozenset[str]]
    contents: Mapping[str, frozenset[str]]
    items: frozenset[str] = frozenset()
    metadata: frozenset[str] = frozenset()
    blocks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    results: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def read_contents(self, output: object) -> list[Any] | None:
        """Return a tool's output as contents of a result, if it is a list of nothing else; None for other data.

        A content has one of the fields that its type demands, and none that the provider does not know: records of the
        tool's own may have a `type`, too.
        """
        entries: Sequence[object] = output if isinstance(output, (list, tuple)) else ()
        contents = [as_data(entry) for entry in entries]
        for content in contents:
            kind = content.get("type") if isinstance(content, dict) else None
            demanded = self.results.get(kind) if isinstance(kind, str) else None
            if demanded is None:
                return None
            names = demanded | self.blocks.get(str(kind), frozenset()) | TECHNICAL | _BESIDE
            values = [content.get(name) for name in demanded]
            if not content.keys() <= names or not any(isinstance(value, (str, list, dict)) for value in values):
                return None
        return contents or None

    def check(self, message: Mapping[str, Any], *, adds_fields: bool = False) -> None:
        """Check the fields and the contents of a message whose role is known.

        Args:
            message: the message.
            adds_fields: whether it may have fields that no format knows.

        Raises:
            FormatError: for content that the format does not know; it names the format that does.
        """
        role, content = message["role"], message.get("content")
        names = self.fields[role] | self.metadata
        self.check_fields(message, names, f"a message of role {role!r}", adds_fields)
        # An answer may have calls alone.
        if not isinstance(content, (str, list)) and not (content is None and role == "assistant" and self is CHAT):
            raise FormatError(
                f"the content of a message of role {role!r} must be a string or a list, found {type(content).__name__}"
            )
        self.check_contents(content, self.contents[role], f"a content of a message of role {role!r}", adds_fields)

    def check_contents(self, contents: object, kinds: frozenset[str], where: str, adds_fields: bool) -> None:
        """Check each content of a list; anything else has none.

        Args:
            contents: the list.
            kinds: the types that its contents may have.
            where: what such a content is called in errors.
            adds_fields: whether they may have fields that no format knows.

        Raises:
            FormatError: for content that the format does not know; it names the format that does.
        """
        for block in contents if isinstance(contents, list) else []:
            if not isinstance(block, Mapping):
                raise FormatError(f"{where} must be an object, found {type(block).__name__}")
            self.check_block(block, kinds, where, adds_fields)

    def check_block(self, block: Mapping[str, Any], kinds: frozenset[str], where: str, adds_fields: bool) -> None:
        """Check the type and the fields of a content, an item or a call. The arguments are those of `check_contents`.

        Raises:
            FormatError: for content that the format does not know; it names the format that does.
        """
        kind = block.get("type")
        if not isinstance(kind, str):
            raise FormatError(f"the type of {where} must be a string, found {kind!r}")
        if kind not in kinds:
            roles = [role for role, types in self.contents.items() if kind in types]
            if roles:
                raise FormatError(
                    f"type {kind!r} cannot be that of {where}: in the format {self.format!r} it stands in a message of"
                    f" role {' or '.join(map(repr, roles))}"
                )
            raise FormatError(self._refusal(f"type {kind!r} of {where}", _owners_of_type(kind)))
        if kind in self.blocks:
            self.check_fields(block, self.blocks[kind], f"{where} of type {kind!r}", adds_fields)
            if "text" in self.blocks[kind] and not isinstance(text := block.get("text"), str):
                raise FormatError(f"the text of {where} of type {kind!r} must be a string, found {text!r}")

    def check_fields(self, owner: Mapping[str, Any], names: frozenset[str], where: str, adds_fields: bool) -> None:
        """Check that an object has no fields with content besides these. The arguments are those of `check_contents`.

        Raises:
            FormatError: for a field that the format does not know; it names the format that does.
        """
        for name, value in owner.items():
            if name in names or name in TECHNICAL or not value or not isinstance(value, (str, list, dict)):
                continue
            owners = [
                words.format
                for words in VOCABULARIES
                if name in words.metadata.union(*words.fields.values(), *words.blocks.values())
            ]
            if owners or not adds_fields:
                advice = _PLACES.get(name, {})
                raise FormatError(self._refusal(f"field {name!r} of {where}", owners, advice.get(self.format, "")))

    def role_error(self, message: Mapping[str, Any], roles: Iterable[str]) -> FormatError:
        """Return the error for a message without a role of this format; it names the format that knows the message."""
        role, kind = message.get("role"), message.get("type")
        if role is None and isinstance(kind, str) and (owners := _owners_of_type(kind)):
            return FormatError(self._refusal(f"type {kind!r} of a message", owners))
        if role is None:
            owners = [owner for name, owner in _ANSWERS.items() if name in message][:1]
        else:
            owners = [words.format for words in VOCABULARIES if isinstance(role, str) and role in words.fields]
        return FormatError(f"role {role!r} is unknown; known: {', '.join(roles)}{self._known_by(owners)}")

    def _refusal(self, what: str, owners: Sequence[str], advice: str = "") -> str:
        elsewhere = self._known_by(owners)
        what = f"{what} is unknown in the format {self.format!r}{elsewhere}"
        if not elsewhere and not advice:
            return f"{what}{LEAVE_OUT}"
        return f"{what}. {advice}" if advice else what

    def _known_by(self, owners: Sequence[str]) -> str:
        others = [repr(owner) for owner in owners if owner != self.format]
        if not others:
            return ""
        return f"; {' and '.join(others)} {'knows' if len(others) == 1 else 'know'} it"


def _owners_of_type(kind: str) -> list[str]:
    return [words.format for words in VOCABULARIES if kind in words.items.union(*words.contents.values())]


def as_data(value: Any) -> Any:
    """Return an object of a provider's SDK as plain data that can be sent again; anything else as it is."""
    dump = getattr(value, "model_dump", None)
    return _without_parsed(dump(mode="json", exclude_none=True)) if callable(dump) else value


def are_plain(entries: Iterable[Any]) -> bool:
    """Return whether all entries of a list are plain data, and no objects of an SDK."""
    return {*map(type, entries)} <= {dict}


def _without_parsed(value: Any) -> Any:
    """Leave out what an SDK adds to an answer; a call's arguments and inputs stay as they are."""
    if isinstance(value, list):
        return [_without_parsed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    fields = {}
    for name, entry in value.items():
        if name not in _PARSED:
            fields[name] = entry if name in _VERBATIM else _without_parsed(entry)
    return fields


TECHNICAL: Final = frozenset(
    {"annotations", "cache_control", "citations", "id", "logprobs", "prompt_cache_breakpoint", "status", "type"}
)
"""Fields of any content that carry no content of their own."""

_BESIDE: Final = frozenset({"context", "detail", "filename", "state_changes", "title"})
"""Fields that describe a content of a result."""

_PLACES: Final[Mapping[str, Mapping[str, str]]] = {
    "function_call": {
        "openai": "Write it as an entry of `tool_calls`",
        "anthropic": "Write it as a block of type `tool_use`",
        "openai_responses": "Write it as an item of type `function_call`",
    }
}
"""What to write instead of a field that providers have given up, by format."""

_ANSWERS: Final = {
    "choices": "openai",
    "message": "openai",
    "output": "openai_responses",
    "stop_reason": "anthropic",
    "candidates": "gemini",
    "parts": "gemini",
}
"""By a field that tells it, the format of a whole answer."""

_PARSED: Final = frozenset({"parsed", "parsed_arguments", "parsed_output"})
_VERBATIM: Final = frozenset({"arguments", "input", "output"})


_EVERY: Final = frozenset({"role", "content"})
_CHAT_TEXT: Final = frozenset({"text"})
_CHAT_MEDIA: Final = frozenset({"image_url", "input_audio", "file", "video_url", "audio_url", "document_url"})
_CHAT_PLAIN: Final = _EVERY | {"name"}

REASONING_TEXTS: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""Keys of reasoning as text in a chat message: the last is GitHub Copilot's."""

CHAT: Final = Vocabulary(
    "openai",
    {
        "system": _CHAT_PLAIN,
        "developer": _CHAT_PLAIN,
        "user": _CHAT_PLAIN,
        # The last two lines are of OpenRouter, LiteLLM, GitHub Copilot and others.
        "assistant": _CHAT_PLAIN
        | {"refusal", "audio", "tool_calls", *REASONING_TEXTS}
        | {"reasoning_details", "thinking_blocks", "reasoning_items", "reasoning_opaque"}
        | {"images", "extra_content", "provider_specific_fields"},
        "tool": _CHAT_PLAIN | {"tool_call_id"},
    },
    {
        "system": _CHAT_TEXT,
        "developer": _CHAT_TEXT,
        "user": _CHAT_TEXT | _CHAT_MEDIA,
        "assistant": _CHAT_TEXT | {"refusal", "image_url"},
        "tool": _CHAT_TEXT | _CHAT_MEDIA,
    },
    # `parsed` repeats the content; some servers give a message an id, a type, a time or probabilities.
    metadata=frozenset({"annotations", "parsed", "cache_control", "id", "type", "status", "model", "timestamp"})
    | {"logprobs", "usage", "finish_reason"},
    blocks={
        "text": frozenset({"text"}),
        "refusal": frozenset({"refusal"}),
        "image_url": frozenset({"image_url", "detail"}),
        "input_audio": frozenset({"input_audio"}),
        "file": frozenset({"file"}),
        # The last two are of Gemini's and other servers.
        "function": frozenset({"function", "extra_content", "provider_specific_fields"}),
        "custom": frozenset({"custom", "extra_content", "provider_specific_fields"}),
    },
    results={name: frozenset({name}) for name in ("text", "image_url", "input_audio", "file")},
)
"""OpenAI's chat API, and servers that imitate it."""

_RESULTS: Final = frozenset(
    f"{tool}_tool_result"
    for tool in (
        *("advisor", "bash_code_execution", "code_execution", "mcp", "text_editor_code_execution"),
        *("tool_search", "web_fetch", "web_search"),
    )
)

ANTHROPIC: Final = Vocabulary(
    "anthropic",
    {"user": _EVERY, "assistant": _EVERY, "system": _EVERY | {"clear_at", "output_config"}},
    {
        "user": frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload"})
        | {"tool_addition", "tool_removal"},
        "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"})
        | _RESULTS
        | {"compaction", "container_upload", "fallback", "mcp_tool_listing"},
        "system": frozenset({"text"}),
    },
    metadata=frozenset({"id", "type", "model", "usage", "container", "context_management", "input_transformations"})
    | {"diagnostics", "stop_reason", "stop_sequence", "stop_details"},
    blocks={
        "text": frozenset({"text"}),
        "thinking": frozenset({"thinking", "signature"}),
        "redacted_thinking": frozenset({"data"}),
        "tool_use": frozenset({"name", "input", "caller", "toolset_name"}),
        "server_tool_use": frozenset({"name", "input", "caller"}),
        "mcp_tool_use": frozenset({"name", "input", "server_name"}),
        "tool_result": frozenset({"tool_use_id", "content", "is_error", "toolset_name"}),
        "image": frozenset({"source", "transformations"}),
        "document": frozenset({"source", "title", "context"}),
        "search_result": frozenset({"source", "title", "content"}),
    },
    results={
        "text": frozenset({"text"}),
        "image": frozenset({"source"}),
        "document": frozenset({"source"}),
        "search_result": frozenset({"content"}),
        "tool_reference": frozenset({"tool_name"}),
        "browser_state": frozenset({"tabs"}),
    },
)
"""Anthropic's Messages API."""

_RESPONSE_TEXT: Final = frozenset({"input_text", "output_text", "text"})
_RESPONSE_MEDIA: Final = frozenset({"input_image", "input_file", "input_audio"})
OUTPUTS: Final = _RESPONSE_TEXT | _RESPONSE_MEDIA
"""Types of the contents of an output of the Responses API."""
_PASSED: Final = frozenset({"internal_chat_message_metadata_passthrough"})
_RESPONSE_FIELDS: Final = _EVERY | {
    "type",
    "id",
    "status",
    "phase",
    "name",
    *_PASSED,
}

RESPONSES: Final = Vocabulary(
    "openai_responses",
    dict.fromkeys(("user", "assistant", "system", "developer"), _RESPONSE_FIELDS),
    {
        "user": _RESPONSE_MEDIA | {"input_text"},
        "assistant": frozenset({"output_text", "refusal", "output_image"}),
        "system": _RESPONSE_MEDIA | {"input_text"},
        "developer": _RESPONSE_MEDIA | {"input_text"},
    },
    items=frozenset(
        {"additional_tools", "agent_message", "apply_patch_call", "apply_patch_call_output", "code_interpreter_call"}
        | {"compaction", "compaction_summary", "compaction_trigger", "computer_call", "computer_call_output"}
        | {"configuration_update", "context_compaction", "custom_tool_call", "custom_tool_call_output"}
        | {"file_search_call", "function_call", "function_call_output", "image_generation_call", "item_reference"}
        | {"local_shell_call", "local_shell_call_output", "mcp_approval_request", "mcp_approval_response", "mcp_call"}
        | {"mcp_list_tools", "message", "program", "program_output", "reasoning", "shell_call", "shell_call_output"}
        | {"tool_search_call", "tool_search_output", "web_search_call"}
    ),
    blocks={
        **dict.fromkeys(("input_text", "output_text", "text"), frozenset({"text"})),
        "refusal": frozenset({"refusal"}),
        "function_call": frozenset({"call_id", "name", "arguments", "namespace", "caller", "async"}) | _PASSED,
        "function_call_output": frozenset({"call_id", "output", "name", "namespace", "caller"}) | _PASSED,
        "custom_tool_call": frozenset({"call_id", "name", "input", "namespace", "caller", "async"}) | _PASSED,
        "custom_tool_call_output": frozenset({"call_id", "output", "name", "namespace", "caller"}) | _PASSED,
        "reasoning": frozenset({"summary", "content", "encrypted_content"}) | _PASSED,
    },
    results={
        "input_text": frozenset({"text"}),
        "input_image": frozenset({"image_url", "file_id"}),
        "input_file": frozenset({"file_data", "file_id", "file_url"}),
    },
)
"""OpenAI's Responses API."""

_GEMINI_DATA: Final = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
    | {"toolCall", "toolResponse"}
    | {"inline_data", "file_data", "function_call", "function_response", "executable_code", "code_execution_result"}
    | {"tool_call", "tool_response"}
)

GEMINI: Final = Vocabulary(
    "gemini",
    dict.fromkeys(("user", "model", "system", "function"), frozenset({"role", "parts"})),
    {},
    blocks={
        "content": frozenset({"role", "parts"}),
        "part": _GEMINI_DATA
        | {"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "mediaProcessing"}
        | {"thought_signature", "video_metadata", "media_resolution", "part_metadata", "media_processing"}
        | {"audioTranscription", "speechMetadata", "documentMetadata", "spreadsheetMetadata", "audioMetadata"}
        | {"audio_transcription", "speech_metadata", "document_metadata", "spreadsheet_metadata", "audio_metadata"},
        "data": _GEMINI_DATA,
    },
)
"""Gemini's `generateContent`. Its parts have no type: the field that holds the content tells what a part is."""

VOCABULARIES: Final = (CHAT, ANTHROPIC, RESPONSES, GEMINI)
