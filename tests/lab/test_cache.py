from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import times
from wane.caches import GENERIC, CacheRules, rules_for
from wane.core import Kind
from wane.lab.cache.prefix import PrefixCache, common_prefix
from wane.prices import CacheUse
from wane.strategies.strategy import Slot, Substitute

MARKED = CacheRules("marked", minimum=100, lifetime=300, breakpoints=4, step="block", charges_writes=True)
FREE = CacheRules("free", minimum=100, lifetime=300, grid=10)
TENS = [10] * 1000


@pytest.fixture
def cache() -> PrefixCache:
    return PrefixCache(MARKED, overhead=200)


def views(*stops: int) -> list[list[Slot]]:
    return [list(range(stop)) for stop in stops]


# Breakpoints (Anthropic; OpenAI since GPT-5.6)


@pytest.mark.parametrize(("added", "read"), [(19, 400), (20, 200)])
def test_a_breakpoint_looks_at_twenty_positions_itself_included(added: int, read: int) -> None:
    cache = PrefixCache(MARKED, overhead=200)
    cache.request(list(range(20)), TENS, 0)
    assert cache.request(list(range(20 + added)), TENS, 1).read == read


def test_the_documented_example_of_the_lookback() -> None:
    cache = PrefixCache(replace(MARKED, minimum=0), overhead=0)
    reads = [cache.request(view, TENS, at).read for at, view in enumerate(views(10, 15, 35))]
    assert reads == [0, 100, 0]


@pytest.mark.parametrize(("step", "read"), [("run", 220), ("block", 200)])
def test_a_run_of_calls_or_of_results_may_be_one_position(step: str, read: int) -> None:
    kinds = [Kind.USER, Kind.TEXT, *[Kind.CALL] * 15, *[Kind.RESULT] * 15]
    cache = PrefixCache(replace(MARKED, step=step), overhead=200, kinds=kinds)  # type: ignore[arg-type]
    cache.request([0, 1], TENS, 0)
    assert cache.request(list(range(32)), TENS, 1).read == read


@pytest.mark.parametrize(
    ("first", "then", "read"),
    [
        ([0], range(101), 210),
        ([0], range(106), 200),
        ([0, 1, 2], [0, 1, 2, *range(6, 11)], 200),  # an entry that ends within a turn is found by no lookback
        ([0, 1, 2], [0, 1, 2], 230),
    ],
)
def test_positions_that_end_turns(first: list[int], then: Sequence[int], read: int) -> None:
    kinds = [Kind.USER, *[Kind.TEXT, Kind.CALL, Kind.CALL, Kind.RESULT, Kind.RESULT] * 30]
    cache = PrefixCache(replace(MARKED, step="turn", lookback=21), overhead=200, kinds=kinds)
    cache.request(first, TENS, 0)
    assert cache.request(list(then), TENS, 1).read == read


def test_without_timestamps_nothing_expires(cache: PrefixCache) -> None:
    cache.request([0], TENS)
    assert cache.request([0, 1], TENS).read == 210


def test_a_system_prompt_among_the_items_is_followed_by_the_system_breakpoint() -> None:
    cache = PrefixCache(MARKED, overhead=200, system=1)
    cache.request(list(range(40)), TENS, 0)
    assert cache.request([0, *range(20, 50)], TENS, 1).read == 210


def test_a_substitute_counts_its_own_tokens_and_matches_by_its_text(cache: PrefixCache) -> None:
    cache.request([0, Substitute("cleared", 3, 1), 2], TENS, 0)
    assert cache.request([0, Substitute("cleared", 3, 1), 2, 3], TENS, 1) == CacheUse(223, 10, 0)
    assert cache.request([0, Substitute("other", 3, 1), 2, 3], TENS, 2).read == 200


def test_a_view_may_change_after_it_was_sent(cache: PrefixCache) -> None:
    view = [*range(30)]
    cache.request(view, TENS, 0)
    del view[5]
    assert cache.request(view, TENS, 1).read == 200


def test_a_view_that_comes_back_finds_its_own_tail(cache: PrefixCache) -> None:
    cache.request(list(range(40)), TENS, 0)
    cache.request([*range(10), *range(20, 40)], TENS, 1)
    assert cache.request(list(range(41)), TENS, 2) == CacheUse(600, 10, 0)


def test_a_call_aside_uses_the_cache_and_is_no_request(cache: PrefixCache) -> None:
    cache.request(list(range(40)), TENS, 0)
    summary = Substitute("Summarise.", 7)
    assert cache.request([*range(40), summary], TENS, 250, aside=True) == CacheUse(600, 7, 0)
    assert cache.request(list(range(41)), TENS, 500).read == 600
    assert cache.prefix_breaks == 0


@pytest.mark.parametrize(("marks_head", "read"), [(True, 230), (False, 200)])
def test_what_no_pass_takes_is_read_up_to_a_breakpoint_of_its_own(*, marks_head: bool, read: int) -> None:
    cache = PrefixCache(replace(MARKED, marks_head=marks_head), overhead=200)
    cache.request([0, 1, 2, *range(10, 40)], TENS, 0, head=3)
    assert cache.request([0, 1, 2, *range(30, 40)], TENS, 1, head=3).read == read


def test_without_a_head_nothing_else_is_marked() -> None:
    cache = PrefixCache(replace(MARKED, marks_head=True), overhead=200)
    cache.request([0, 1, 2, *range(10, 40)], TENS, 0)
    assert cache.request([0, 1, 2, *range(30, 40)], TENS, 1).read == 200


# Automatic caching (OpenAI before GPT-5.6, Google, DeepSeek, others)


def test_the_grid_counts_from_what_is_hidden_ahead() -> None:
    cache = PrefixCache(replace(FREE, minimum=128, grid=512, hidden=128))
    cache.request([0], [31_069], 0)
    assert cache.request([0, 1], [31_069, 470], 1).read == 30_592
    cache = PrefixCache(replace(FREE, minimum=128, grid=512, hidden=128))
    cache.request([0], [36_243], 0)
    assert cache.request([0, 1], [36_243, 4_155], 1).read == 36_224


# Breaks


def test_prefix_breaks_are_requests_that_do_not_begin_with_the_last_view(cache: PrefixCache) -> None:
    for view in ([0, 1], [0, 1, 2], [0, 2, 3], [0, 2], [0, 2, 4], []):
        cache.request(view, TENS)
    assert cache.prefix_breaks == 3


def test_a_compaction_is_a_break_though_the_summary_came_between(cache: PrefixCache) -> None:
    cache.request([0, 1, 2], TENS)
    cache.request([0, 1, 2, Substitute("Summarise.", 5)], TENS, aside=True)
    cache.request([0, Substitute("summary", 5), 3], TENS)
    assert cache.prefix_breaks == 1


# Rules


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-opus-5-5", 512),
        ("claude-opus-5", 512),
        ("claude-fable-5-2", 512),
        ("claude-mythos-5-2", 512),
        ("claude-mythos-preview", 2048),
        ("claude-sonnet-5", 1024),
        ("claude-sonnet-4-5-20250929", 1024),
        ("anthropic/claude-sonnet-4.6", 1024),
        ("claude-opus-4-8", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-6", 4096),
        ("claude-opus-4-5-20251101", 4096),
        ("claude-opus-4.5", 4096),
        ("claude-opus-4-1-20250805", 1024),
        ("claude-opus-4-20250514", 1024),
        ("claude-haiku-4-5", 4096),
        ("claude-3-5-haiku-20241022", 2048),
    ],
)
def test_the_minimum_of_claude_models(model: str, minimum: int) -> None:
    assert rules_for("anthropic", model).minimum == minimum


def test_anthropic_has_breakpoints_and_two_lifetimes() -> None:
    rules = rules_for("anthropic", "claude-sonnet-4-5")
    assert (rules.breakpoints, rules.lookback, rules.lifetime, rules.charges_writes) == (4, 20, 300, True)
    assert rules_for("anthropic", "claude-sonnet-4-5", hour=True).lifetime == 3600
    assert rules_for("aws", "us.anthropic.claude-sonnet-4-5-v1:0").step == "block"


@pytest.mark.parametrize(
    ("model", "breakpoints", "grid", "lifetime"),
    [
        ("gpt-5.6-sol", 4, 1, 1800),
        ("gpt-6-astra", 4, 1, 1800),
        ("gpt-5.10", 4, 1, 1800),
        ("gpt-5.5", 0, 512, 1800),
        ("gpt-5.2", 0, 128, 1800),
        ("gpt-5", 0, 128, 1800),
        ("openai/gpt-4.1-mini", 0, 128, 1800),
        ("gpt-4o", 0, 128, 300),
        ("o3-mini", 0, 128, 300),
    ],
)
def test_openai_by_generation(model: str, breakpoints: int, grid: int, lifetime: float) -> None:
    rules = rules_for("openai", model)
    assert (rules.name, rules.breakpoints, rules.grid, rules.lifetime) == ("openai", breakpoints, grid, lifetime)


def test_other_providers() -> None:
    assert rules_for("google", "gemini-2.5-pro").minimum == 2048
    assert rules_for("google", "gemini-3.1-pro-preview").minimum == 4096
    assert rules_for("deepseek", "deepseek-v4-pro").grid == 64
    for provider, model in (("together", "deepseek-v4-pro"), ("groq", "openai/gpt-oss-120b"), ("x", "qwen3-coder")):
        assert rules_for(provider, model) is GENERIC
    assert GENERIC.note


# Against a simulator that keeps every prefix and compares all of it


class Naive:
    def __init__(self, rules: CacheRules, overhead: int, kinds: list[Kind]) -> None:
        self.rules, self.overhead, self.kinds = rules, overhead, kinds
        self.entries: dict[tuple[Slot, ...], float] = {}
        self.now = 0.0

    def request(self, view: list[Slot], tokens: list[int], at: float) -> CacheUse:
        self.now = max(self.now, at)
        size = [self.overhead]
        for slot in view:
            size.append(size[-1] + (tokens[slot] if isinstance(slot, int) else slot.tokens))
        return self.use_marks(view, size) if self.rules.breakpoints else self.use_grid(view, size)

    def use_grid(self, view: list[Slot], size: list[int]) -> CacheUse:
        same = 0
        for entry, expires in self.entries.items():
            if expires >= self.now:
                matching = 0
                while matching < min(len(entry), len(view)) and entry[matching] == view[matching]:
                    matching += 1
                same = max(same, size[matching])
        read = (same + self.rules.hidden) // self.rules.grid * self.rules.grid - self.rules.hidden
        read = read if read >= self.rules.minimum else 0
        self.entries[tuple(view)] = self.now + self.rules.lifetime
        written = size[-1] - read
        return CacheUse(read, written, 0)

    def use_marks(self, view: list[Slot], size: list[int]) -> CacheUse:
        last = len(view)
        marks = [mark for mark in sorted({0, last}) if size[mark] >= self.rules.minimum]
        reached = [end for mark in marks for end in self.positions(view, mark)]
        hit = max((end for end in reached if self.alive(view[:end])), default=None)
        for mark in [*marks, *([] if hit is None else [hit])]:
            self.entries[tuple(view[:mark])] = self.now + self.rules.lifetime
        read = 0 if hit is None else size[hit]
        cached = size[marks[-1]] if marks else 0
        return CacheUse(read, cached - read, size[-1] - cached)

    def alive(self, prefix: list[Slot]) -> bool:
        return self.entries.get(tuple(prefix), -1.0) >= self.now

    def kind(self, slot: Slot) -> Kind:
        return Kind.USER if isinstance(slot, Substitute) else self.kinds[slot]

    def positions(self, view: list[Slot], mark: int) -> list[int]:
        kinds = [self.kind(slot) for slot in view]
        found: list[int] = []
        for end in range(mark, -1, -1):
            if end in (mark, 0) or self.rules.step == "block":
                found.append(end)
            elif self.rules.step == "run":
                if kinds[end - 1] not in (Kind.CALL, Kind.RESULT) or kinds[end - 1] is not kinds[end]:
                    found.append(end)
            elif kinds[end - 1] is Kind.USER or (kinds[end - 1] is Kind.RESULT and kinds[end] is not Kind.RESULT):
                found.append(end)
        found = found[: self.rules.lookback]
        if self.rules.step == "run" and found:
            # An entry within a run is as near as the run.
            found = list(range(mark, found[-1] - 1, -1))
        return found


KINDS = [Kind.USER, Kind.TEXT, Kind.CALL, Kind.CALL, Kind.CALL, Kind.RESULT, Kind.RESULT, Kind.RESULT] * 4
SLOTS = st.integers(0, len(KINDS) - 1) | st.builds(Substitute, st.sampled_from("ab"), st.just(3))


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[list[Slot], float]]:
    made: list[tuple[list[Slot], float]] = []
    now = 0.0
    for _ in range(draw(st.integers(1, 12))):
        earlier: list[list[Slot]] = [view for view, _ in made] or [list(range(8))]
        old = draw(st.sampled_from(earlier))
        view = [*old[: draw(st.integers(0, len(old)))], *draw(st.lists(SLOTS, max_size=6))]
        now += draw(st.sampled_from([0, 1, 100, 299, 301]))
        made.append((view, now))
    return made


RULES = st.builds(
    CacheRules,
    name=st.just("any"),
    minimum=st.sampled_from([0, 30, 60]),
    lifetime=st.just(300),
    breakpoints=st.sampled_from([0, 4]),
    lookback=st.integers(1, 6),
    step=st.sampled_from(["block", "run", "turn"]),
    grid=st.sampled_from([1, 16]),
    hidden=st.sampled_from([0, 5]),
    charges_writes=st.booleans(),
)


@given(RULES, requests(), st.sampled_from([0, 40]))
@times(6)
def test_as_a_simulator_that_remembers_everything(
    rules: CacheRules, series: list[tuple[list[Slot], float]], overhead: int
) -> None:
    tokens = [7 + index for index in range(len(KINDS))]
    naive = Naive(rules, overhead, KINDS)
    cache = PrefixCache(rules, overhead, kinds=KINDS)
    for view, at in series:
        use, wanted = cache.request(view, tokens, at), naive.request(view, tokens, at)
        assert use.read == wanted.read
        assert use.total == wanted.total
        assert use.written == (wanted.written if rules.charges_writes else 0)
        assert min(use.read, use.written, use.fresh) >= 0


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40), st.integers(0, 40))
def test_common_prefix(one: list[int], two: list[int], start: int) -> None:
    wanted = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    assert common_prefix(one, two) == wanted
    assert common_prefix(one, two, min(start, wanted)) == wanted


def test_common_prefix_of_long_views() -> None:
    view = list(range(5000))
    for at in (0, 1, 1023, 1024, 1025, 4999):
        assert common_prefix(view, [*view[:at], -1, *view[at + 1 :]]) == at
