"""Which formats a file comes closest to that none of them reads, by the keys of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_KEYS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(keys.split())
    for name, keys in {
        "Claude Code": "parentUuid uuid sessionId isSidechain userType message timestamp cwd version gitBranch type",
        "Codex": "timestamp type payload ordinal instructions",
        "Copilot CLI": "type data id parentId timestamp",
        "Gemini CLI": "sessionId projectHash startTime lastUpdated kind messages content thoughts tokens toolCalls",
        "Goose": "id working_dir name conversation message_count accumulated_usage model_config created_at",
        "OpenCode": "info messages parts sessionID role time",
        "pi": "type id parentId message timestamp cwd version thinkingLevel",
        "Qwen Code": "uuid parentUuid sessionId timestamp type message usageMetadata model cwd version systemPayload",
        "Kimi Code": "type protocol_version time input message event",
        "Mistral Vibe": "role content message_id injected tool_calls tool_call_id name reasoning_content",
        "Cline": "messages origin sessionId system_prompt version",
        "ATIF": "schema_version session_id agent steps final_metrics",
        "Wane": "kind version format seq checksum",
        "OpenAI chat": "role content tool_calls tool_call_id name refusal",
        "OpenAI Responses": "type role content call_id arguments output status summary input",
        "Anthropic": "role content model max_tokens messages system tools stop_reason",
        "Gemini": "role parts contents systemInstruction generationConfig",
        "Pydantic AI": "parts kind usage model_name timestamp instructions",
    }.items()
}
"""The keys of each format's outer records."""

_LEAST: Final = 2
_MOST_NAMED: Final = 3


def closest_formats(values: Sequence[object]) -> list[str]:
    """Return the titles of the formats to whose records a file's first JSON values come closest; none if none is close.

    They have at least two keys, and half of the values' keys, in common with them.
    """
    keys: set[str] = set()
    for value in values:
        if isinstance(value, dict):
            keys.update(value)
    common = {name: len(keys & known) for name, known in _KEYS.items()}
    most = max(common.values())
    if most < _LEAST or 2 * most < len(keys):
        return []
    return [name for name, number in common.items() if number == most][:_MOST_NAMED]


def one_of(names: Sequence[str]) -> str:
    """Return names as a choice, in words."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
