"""Excerpts of sessions, and what a judge is shown of them; the judge here only knows words that it has just seen."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from wane.core import Kind
from wane.core.errors import ConfigError
from wane.formats.message_format import Part
from wane.lab.recorded_session import ModelCall, RecordedSession
from wane_research.judge.figures import complete, pair, rows
from wane_research.judge.judging import (
    ALL,
    CALLS,
    LONGEST,
    USERS,
    Excerpt,
    Judgement,
    arm,
    excerpt,
    excerpts,
    render_part,
    shorten_part,
)

SIZE, BUDGET = 1_200, 400


class Words:
    """A judge whose tokens are words, and that expects any word that it has seen."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.numbers: dict[str, int] = {}
        self.prompts: list[str] = []

    @property
    def opening(self) -> list[int]:
        return self.tokens("[session]\n")

    def tokens(self, text: str) -> list[int]:
        tokens = []
        for word in re.findall(r"\s*\S+\s*", text):
            if word not in self.numbers:
                self.numbers[word] = len(self.words)
                self.words.append(word)
            tokens.append(self.numbers[word])
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        return [self.words[token] for token in tokens]

    def surprise(self, before: Sequence[int], continuation: Sequence[int]) -> list[float]:
        self.prompts.append("".join(self.pieces(before)))
        known = {self.words[token].strip(' \n"{}') for token in before}
        return [float(self.words[token].strip(' \n"{}') not in known) for token in continuation]


def session(name: str = "made", steps: int = 60, source: str = "codex") -> RecordedSession:
    """A session that reads a file at each step, and later the first one again."""
    made = RecordedSession(name, source)

    def add(part: Part, message: int) -> None:
        made.parts.append(part)
        made.messages.append(message)

    add(Part(Kind.USER, "find out what src/first_file.py does"), 0)
    for step in range(steps):
        path = "src/first_file.py" if step in (0, steps - 1) else f"src/file_{step}.py"
        first = len(made.parts)
        add(Part(Kind.CALL, call_id=f"c{step}", tool="read", arguments=json.dumps({"path": path})), 2 * step + 1)
        made.calls.append(ModelCall(first, len(made.parts)))
        add(Part(Kind.RESULT, f"in {path}: " + "words of the file " * 10, call_id=f"c{step}"), 2 * step + 2)
    return made


class TestExcerpts:
    def test_texts_are_cut_and_calls_stay_json(self) -> None:
        long = "x" * 5_000
        assert len(shorten_part(Part(Kind.RESULT, long)).text) < LONGEST + 10
        call = shorten_part(Part(Kind.CALL, tool="write", arguments=json.dumps({"path": "a.py", "content": [long]})))
        read = json.loads(call.arguments or "")
        assert read["path"] == "a.py"
        assert len(read["content"][0]) < LONGEST + 10
        assert shorten_part(Part(Kind.TEXT, "short")) == Part(Kind.TEXT, "short")

    @pytest.mark.parametrize("seed", range(20))
    def test_an_excerpt_fits_and_begins_with_the_users_turn(self, seed: int) -> None:
        judge = Words()

        def counter(part: Part) -> int:
            return len(judge.tokens(render_part(part)))

        made = excerpt(session(), SIZE, counter, Random(seed))
        assert made is not None
        assert made.parts[0].kind is Kind.USER
        assert SIZE / 2 < sum(map(counter, made.parts)) <= SIZE
        calls = {part.call_id for part in made.parts if part.kind is Kind.CALL}
        assert {part.call_id for part in made.parts if part.kind is Kind.RESULT} <= calls
        assert all(made.parts[call.first].kind is Kind.CALL for call in made.calls)

    def test_none_of_a_short_session(self) -> None:
        assert excerpt(session(steps=3), SIZE, lambda _: 10, Random(0)) is None

    def test_a_seed_decides_and_sources_take_turns(self) -> None:
        sessions = [session(f"{source}-{number}", source=source) for source in ("codex", "pi") for number in range(5)]

        def order(seed: int) -> list[str]:
            return [excerpt.name for excerpt in excerpts(sessions, Words(), SIZE, BUDGET, seed)]

        assert order(0) == order(0) != order(1)
        assert [name.split("-")[0] for name in order(0)] == ["codex", "pi"] * 5


class TestJudging:
    def judge_arm(self, name: str) -> tuple[list[Judgement], Words]:
        judge = Words()
        prepared = Excerpt("made", session(steps=30), judge, BUDGET)
        return list(prepared.judge(arm(name))), judge

    def test_a_name_that_has_left_the_view_costs(self) -> None:
        whole, _ = self.judge_arm(ALL)
        cut, judge = self.judge_arm("clear-tools")
        assert [it.call for it in whole] == [it.call for it in cut] == [*range(30 - CALLS, 30)]
        assert (whole[-1].names, whole[-1].missing, whole[-1].name_loss) == (1, 0, 0.0)
        assert cut[-1].view < whole[-1].view
        assert "[call]" in judge.prompts[-1]

    def test_only_calls_that_lack_a_name(self) -> None:
        gone = arm("clear-tools")
        made = session(steps=30)
        # What only a result has said is gone with it.
        made.parts[1] = replace(made.parts[1], arguments="{}")
        made.parts[0] = replace(made.parts[0], text="find out")
        prepared = Excerpt("made", made, Words(), BUDGET, gone)
        assert prepared.judged == [29]
        assert [it.missing for it in prepared.judge(gone)] == [1]
        assert [it.missing for it in prepared.judge(arm(ALL))] == [0]
        assert [it.judged for it in excerpts([made], Words(), SIZE, BUDGET, 0, arm(ALL))] == []

    def test_the_users_words_alone(self) -> None:
        users, judge = self.judge_arm(USERS)
        assert judge.prompts[-1] == "[session]\n[user]\nfind out what src/first_file.py does\n\n[call]"
        assert users[-1].missing == 0
        assert all(it.loss > 0 for it in users)

    def test_a_summary_is_an_extract(self) -> None:
        _, judge = self.judge_arm("compact")
        assert "Goal: find out" in judge.prompts[-1]

    def test_an_unknown_arm(self) -> None:
        with pytest.raises(ConfigError, match="unknown"):
            arm("nothing")
        with pytest.raises(ConfigError, match="low water"):
            arm("truncate@2")
        assert arm("truncate@0.5").low_water == 0.5


def judgement(session: str, call: int, arm: str, loss: float, missing: int = 0) -> Judgement:
    return Judgement(session, call, arm, 100, 10, 10 * loss, 1, missing, 2, loss)


class TestFigures:
    def test_worth_lies_between_the_users_words_and_all(self) -> None:
        made: list[Judgement] = []
        for name, call in product(("a", "b", "c"), range(3)):
            made.append(judgement(name, call, ALL, 1.0 + call))
            made.append(judgement(name, call, "cwl", 1.5 + call, missing=call == 0))
            made.append(judgement(name, call, USERS, 3.0 + call, missing=1))
        listed = {row.arm: row for row in rows(made, "cwl")}
        assert listed[ALL].interval is None
        assert [listed[name].worth for name in (ALL, "cwl", USERS)] == [1.0, 0.75, 0.0]
        assert listed["cwl"].interval is not None
        # What makes a call hard for every view is no uncertainty of a difference.
        assert listed["cwl"].interval.width == pytest.approx(0)
        assert (listed["cwl"].gone, listed["cwl"].others) == (pytest.approx(0.5), pytest.approx(0.5))
        assert listed["cwl"].recall == pytest.approx(2 / 3)

    def test_only_calls_that_all_arms_judged(self) -> None:
        made = [judgement("a", 0, ALL, 1.0), judgement("a", 0, "cwl", 1.0), judgement("a", 1, ALL, 1.0)]
        assert complete(made, [ALL, "cwl"]) == made[:2]

    def test_a_pair_says_how_many_sessions_would_show_it(self) -> None:
        losses = {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.2}
        made = [judgement(name, 0, "paper", 1 + loss) for name, loss in losses.items()]
        made += [replace(it, arm="cwl", loss=10.0) for it in made]
        apart = pair(made, "paper", "cwl")
        assert apart.difference == pytest.approx(0.2)
        assert apart.interval.low > 0
        assert apart.sessions == 2
        assert apart.detectable is not None
        assert 0.1 < apart.detectable < 0.3
