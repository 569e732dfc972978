"""The rules of each provider's prefix cache, by model. `docs/lab/cache.md` quotes the sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

Step = Literal["block", "run", "turn"]
"""The unit of a lookback: blocks; blocks, with a run of calls or results as one; or ends of user and tool turns."""

_ANTHROPIC = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
_OPENAI = "https://developers.openai.com/api/docs/guides/prompt-caching"
_GOOGLE = "https://ai.google.dev/gemini-api/docs/caching"
_DEEPSEEK = "https://api-docs.deepseek.com/guides/kv_cache"

UNSURE: Final = 600.0
"""Seconds unused after which an automatic cache may be gone, whatever its lifetime: OpenAI says 5 to 10 minutes."""

_FIVE_MINUTES: Final = 300.0
_HALF_HOUR: Final = 1800.0
_HOUR: Final = 3600.0
_PI_LEFT_OUT_THE_TIME: Final = 1773432356.0  # 13 March 2026, 20:05:56 UTC

RESUMED: Final = "the session was left and resumed"
SKILL_LOADED: Final = "a skill was loaded"
SKILL_ENDED: Final = "the turn ended in which a skill had been loaded"

_KEEPS_CACHE_SINCE: Final = {RESUMED: (2, 1, 97), SKILL_LOADED: (2, 1, 38), SKILL_ENDED: (2, 1, 38)}
"""The versions of Claude Code from which on these events no longer break the cache: by its changelog ("Fixed `--resume`
cache misses"), and as `docs/lab/doctor.md` measured it."""


def describe_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which there is one: 45 s, 5 min, 22.6 h, 3.1 days."""
    for length, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= length and (length < 86_400 or seconds >= 2 * length):
            return f"{f'{seconds / length:,.1f}'.removesuffix('.0')} {unit}"
    return f"{seconds:.0f} s"


def describe_pause(seconds: float, lifetime: float) -> str:
    """Return that a cache had expired between two answers."""
    return f"the answers are {describe_duration(seconds)} apart, and the cache lives for {describe_duration(lifetime)}"


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How one provider caches prefixes for one model.

    With breakpoints, an entry ends exactly where some request had a breakpoint, and a request finds it only from a
    breakpoint of its own at most `lookback` steps behind. Without them, every request caches its whole prefix, and a
    later request reads the part that is the same, in steps of `grid`.

    Attributes:
        name: the provider.
        minimum: tokens that a prefix needs to be cached.
        lifetime: seconds that an entry lives after its last write or read.
        breakpoints: how many a request may have; 0 if the provider has none.
        lookback: positions that each breakpoint checks, itself included.
        step: the unit that counts as a position.
        grid: without breakpoints, tokens between the places where a read can end.
        hidden: tokens that the provider puts ahead of the request; the grid counts from there.
        charges_writes: whether written tokens are reported and priced separately.
        marks_head: whether `wane proxy` adds a breakpoint behind what no pass may take at the head of a view.
        source: where the provider documents this.
        note: assumptions, or measurements that differ from the source; empty if there are none.
    """

    name: str
    minimum: int
    lifetime: float
    breakpoints: int = 0
    lookback: int = 20
    step: Step = "run"
    grid: int = 1
    hidden: int = 0
    charges_writes: bool = False
    marks_head: bool = False
    source: str = ""
    note: str = ""


GENERIC: Final = CacheRules(
    name="generic",
    minimum=1024,
    lifetime=_FIVE_MINUTES,
    grid=128,
    note="no rules are known for this model; automatic caching in steps of 128 tokens for 5 minutes is assumed",
)
"""For providers whose rules are unknown."""

_CLAUDE: Final = CacheRules(
    name="anthropic",
    minimum=1024,
    lifetime=_FIVE_MINUTES,
    breakpoints=4,
    charges_writes=True,
    marks_head=True,
    source=_ANTHROPIC,
)

# The first pattern found in a model's name decides. The minimum has gone up and down between generations.
_CLAUDE_MINIMUM: Final = tuple(
    (re.compile(pattern), minimum)
    for pattern, minimum in (
        (r"(opus|fable|mythos)-?(5|[6-9])(?!\d)", 512),
        (r"opus-4[-.]8", 1024),
        (r"opus-4[-.]7|mythos", 2048),
        (r"opus-4[-.][56]|haiku-4[-.]5", 4096),
        (r"haiku-(3|20)|3[-.]5-haiku|3-haiku", 2048),
    )
)

_GPT: Final = CacheRules(name="openai", minimum=1024, lifetime=_FIVE_MINUTES, grid=128, source=_OPENAI)
_GPT_5_5: Final = replace(
    _GPT,
    lifetime=_HALF_HOUR,
    grid=512,
    hidden=128,
    note="recorded reads of June 2026 all end on steps of 512 tokens; the guide of October 2026 says 2,048",
)
_GPT_5_6: Final = CacheRules(
    name="openai",
    minimum=1024,
    lifetime=_HALF_HOUR,
    breakpoints=4,
    lookback=21,
    step="turn",
    charges_writes=True,
    source=_OPENAI,
    note="assumes an explicit breakpoint behind the instructions, besides the implicit one at the end",
)
_EXTENDED: Final = re.compile(r"gpt-(5(?!\d)|4\.1)")
"""Models whose entries are kept for about half an hour (`24h` retention) unless data retention is off."""

_GEMINI: Final = CacheRules(
    name="google",
    minimum=4096,
    lifetime=_FIVE_MINUTES,
    source=_GOOGLE,
    note="implicit caching is not guaranteed and its lifetime is not published; 5 minutes and every hit are assumed",
)
_DEEP: Final = CacheRules(
    name="deepseek",
    minimum=64,
    lifetime=3 * _HOUR,
    grid=64,
    source=_DEEPSEEK,
    note="the guide gives no interval any more (64 tokens in 2024) and a lifetime of hours to days; 64 and 3 h assumed",
)


@lru_cache(maxsize=256)
def rules_for(provider: str, model: str, *, hour: bool = False) -> CacheRules:
    """Return the rules for a model.

    Args:
        provider: whose API serves it, such as `anthropic`, `openai` or `aws`; empty for the model's maker.
        model: its name there.
        hour: whether Anthropic keeps entries for one hour (writes cost twice the input price) instead of 5 minutes.

    Returns:
        The rules, `GENERIC` if none are known.
    """
    provider, model = provider.lower(), model.lower()
    if "claude" in model:
        minimum = next((tokens for pattern, tokens in _CLAUDE_MINIMUM if pattern.search(model)), _CLAUDE.minimum)
        rules = replace(_CLAUDE, minimum=minimum, lifetime=_HOUR if hour else _FIVE_MINUTES)
        if provider in {"amazon-bedrock", "aws", "bedrock"}:
            return replace(rules, step="block", note="on Bedrock the lookback counts every call and result by itself")
        return rules
    if "gemini" in model:
        return replace(_GEMINI, minimum=2048) if "2.5" in model else _GEMINI
    if "deepseek" in model and provider in {"", "deepseek"}:
        return _DEEP
    if re.search(r"(^|[/.-])(gpt-\d|chatgpt|o[134](-|$)|codex)", model):
        version = re.search(r"gpt-(\d+)(?:\.(\d+))?", model)
        number = (int(version[1]), int(version[2] or 0)) if version else (0, 0)
        if number >= (5, 6):
            return _GPT_5_6
        if number == (5, 5):
            return _GPT_5_5
        return replace(_GPT, lifetime=_HALF_HOUR) if _EXTENDED.search(model) else _GPT
    return GENERIC


def drops_reasoning(model: str) -> bool:
    """Return whether a model's provider leaves out the reasoning of all turns before the user's last one.

    Anthropic does for models before Claude Opus 4.5 and Sonnet 4.6, OpenAI for those before GPT-5.6.
    """
    if "claude" in model:
        named = re.search(r"(opus|sonnet|haiku)-(\d)(?:[-.](\d)(?!\d))?", model)
        kept_since = (4, 5) if named and named[1] == "opus" else (4, 6)
        return "claude-3" in model or bool(named and (int(named[2]), int(named[3] or 0)) < kept_since)
    version = re.search(r"gpt-(\d+)(?:\.(\d+))?", model)
    return bool(version and (int(version[1]), int(version[2] or 0)) < (5, 6))


def dates_prompt(client: str, at: float | None) -> bool:
    """Return whether a client wrote the time of its start, to the second, into its system prompt.

    pi did before 0.58, of 13 March 2026 (https://github.com/badlogic/pi-mono/issues/2131): each restart changed it.

    Args:
        client: the client, by the name of its sessions' reader.
        at: when it sent the request, in seconds since 1970 UTC; None if that is not known.
    """
    return client == "pi" and at is not None and at < _PI_LEFT_OUT_THE_TIME


def breaks_cache(event: str, version: str) -> bool:
    """Return whether Claude Code of a version changed the beginning of its messages at an event.

    Args:
        event: `RESUMED`, `SKILL_LOADED`, `SKILL_ENDED`, or an empty string for none of them.
        version: the version, such as `2.1.36`; False for any other text.
    """
    parts = version.split(".")
    return all(part.isdecimal() for part in parts) and tuple(map(int, parts)) < _KEEPS_CACHE_SINCE.get(event, ())
