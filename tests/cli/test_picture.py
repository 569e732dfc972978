"""The picture of a window and the reasons beside it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import wane
from tests.cli.sample import Chat
from tests.conformance import policy_of
from wane.cli.terminal import layout
from wane.cli.terminal.picture import Band, EpisodeTable, Role, Row, WindowPicture
from wane.formats.openai import OpenAIFormat

LETTERS = set("SUNnPpRrWwIi·")
NOTICE = f"<system-reminder>{'The todo list is empty. ' * 4}</system-reminder>"


def draw_lines(renderable: Any, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


def tape(lines: list[str], label: str) -> str:
    (line,) = (line for line in lines if line.startswith(f" {label} "))
    return line[9:].split(" ")[0]


def blocks() -> st.SearchStrategy[Band]:
    tokens, kept = st.integers(0, 10**7), st.booleans()
    fixed = st.builds(Band, st.sampled_from([Role.SYSTEM, Role.USER, Role.NOTICE]), tokens, kept)
    types = [Role.EXPL, Role.ACT, Role.IMPLICIT, Role.PROLOGUE, Role.NOTICE]
    return fixed | st.integers(0, 9).flatmap(
        lambda number: st.builds(Band, st.just(types[number % 5]), tokens, kept, st.just(number))
    )


class TestTape:
    def test_shares(self) -> None:
        blocks = [Band(Role.SYSTEM, 100), Band(Role.EXPL, 300, stays=False, episode=0), Band(Role.ACT, 200, episode=1)]
        lines = draw_lines(WindowPicture(blocks, budget=600), 9 + 60 + len(" 600 tokens"))
        assert tape(lines, "before") == "S" * 10 + "R" * 30 + "W" * 20
        assert tape(lines, "stays") == "S" * 10 + "·" * 30 + "W" * 20
        assert tape(lines, "after") == "S" * 10 + "W" * 20

    def test_neighbouring_episodes_of_a_type_differ_in_case_and_an_interrupted_one_keeps_its_own(self) -> None:
        blocks = [Band(Role.EXPL, 100, episode=number) for number in (0, 2, 5)]
        letters = tape(draw_lines(WindowPicture(blocks, budget=300), 9 + 30 + len(" 300 tokens")), "window")
        assert letters == "R" * 10 + "r" * 10 + "R" * 10
        parts = [(Role.ACT, 0), (Role.EXPL, 1), (Role.USER, None), (Role.EXPL, 1)]
        blocks = [Band(role, 100, episode=number) for role, number in parts]
        assert set(tape(draw_lines(WindowPicture(blocks, budget=400)), "window")) == set("WRU")

    @pytest.mark.parametrize(("tokens", "filled", "ruled"), [(1_000, 40, 20), (500, 40, 40), (125, 10, 40)])
    def test_the_ruler_shows_where_the_budget_ends(self, tokens: int, filled: int, ruled: int) -> None:
        width = 9 + 40 + len(f" {tokens:,} tokens")
        lines = draw_lines(WindowPicture([Band(Role.USER, tokens)], budget=500), width)
        assert tape(lines, "window") == "U" * filled
        assert len(lines[1].strip()) == ruled

    def test_a_budget_too_small_for_its_label_and_an_empty_window(self) -> None:
        assert draw_lines(WindowPicture([Band(Role.USER, 10**9)], budget=1))[1].strip() == "├┤ budget 1"
        assert draw_lines(WindowPicture([], budget=80_000))[0].split() == ["window", "0", "tokens"]

    @given(st.lists(blocks(), max_size=40), st.integers(1, 10**7), st.integers(60, 200))
    def test_it_fits_and_shows_as_much_gone_as_went(self, parts: list[Band], budget: int, width: int) -> None:
        lines = draw_lines(WindowPicture(parts, budget), width)
        assert max(map(len, lines)) <= width
        before, after = sum(part.tokens for part in parts), sum(part.tokens for part in parts if part.stays)
        if before == after:
            return
        whole, stays = tape(lines, "before"), tape(lines, "stays")
        assert set(whole) <= LETTERS
        assert len(whole) == len(stays)
        # A cell shows what holds most of it, so each piece is off by less than one.
        assert abs(stays.count("·") - len(whole) * (before - after) / before) <= len(parts)


class TestTables:
    def test_rows(self) -> None:
        rows = [Row(Role.ACT, "fix", 1_200, 0, "remove", "gone", builds_on=("look", "read"), note="a note", depth=1)]
        assert draw_lines(EpisodeTable(rows)) == [
            "   episode            before  after  level   why",
            "W    fix               1,200      0  remove  gone",
            "       on look, read",
            "       a note",
        ]

    @pytest.mark.parametrize(("limit", "shown"), [(None, 9), (9, 9), (6, 7), (1, 2)])
    def test_the_middle_is_left_out(self, limit: int | None, shown: int) -> None:
        steps = [self.step(number, wane.Level.BULK, 10) for number in range(1, 10)]
        lines = draw_lines(layout.step_table(steps, limit=limit))[1:]
        assert len(lines) == shown
        if limit and limit < len(steps):
            assert f"({len(steps) - limit:,} more)" in " ".join(lines)
            assert "e9" in lines[-1]

    def test_steps_of_one_episode_in_a_row_are_one_row(self) -> None:
        bulk, remove = wane.Level.BULK, wane.Level.REMOVE
        steps = [self.step(1, bulk, 50), self.step(1, remove, 40), self.step(0, remove, 30)]
        assert draw_lines(layout.step_table(steps)) == [
            "step  episode       levels         freed  view",
            "1-2   e1            bulk, removed     20    30",
            "3     (unmarked 0)  removed           10    20",
        ]

    def step(self, number: int, level: wane.Level, before: int) -> wane.Step:
        return wane.Step(f"e{number}" if number else None, number, level, before, before - 10, ())


class TestLayout:
    @pytest.mark.full
    def test_what_is_drawn_adds_up(self, shared_cases: list[dict[str, Any]], subtests: pytest.Subtests) -> None:
        for case in shared_cases:
            with subtests.test(case["name"]):
                self.check(case)

    def check(self, case: dict[str, Any]) -> None:
        # The cases are of a server that does not demand a call's reasoning (R12).
        chosen, policy = OpenAIFormat(demands_reasoning=False), policy_of(case)
        plan = wane.plan(case["messages"], budget=case["budget"], policy=policy, format=chosen, annotate="model")
        blocks = layout.blocks(plan.item_kinds, plan.item_tokens, plan.episodes, plan.visible)
        rows = layout.rows(blocks, plan.episodes, policy)
        before, after = case["expect"]["tokens"]["before"], case["expect"]["tokens"]["after"]
        assert sum(block.tokens for block in blocks) == sum(row.before for row in rows) == before
        assert sum(block.tokens for block in blocks if block.stays) == sum(row.after for row in rows) == after
        held = layout.held_by(blocks)
        assert [held.get(e.number, (0, 0))[1] for e in plan.episodes] == [e.tokens for e in plan.episodes]
        notices = sum(t for kind, t in zip(plan.item_kinds, plan.item_tokens, strict=True) if kind is wane.Kind.NOTICE)
        assert sum(row.before for row in rows if row.role is Role.NOTICE) == notices
        assert all(row.why for row in rows)

    def reasons(self, chat: Chat, **options: Any) -> dict[str, str]:
        plan = wane.plan(chat.messages, **{"budget": 10**6} | options)
        needed = layout.dependents(plan.episodes)
        policy = plan.report.policy
        return {layout.name_of(e.number, e.name): layout.why(e, needed, policy) for e in plan.episodes}

    def test_reasons_to_stay(self) -> None:
        chat = Chat()
        chat.start("base", "expl")
        chat.end("a base")
        chat.start("late", "expl")
        chat.messages.append(chat.messages[-2] | {"tool_calls": [{"id": "x", "function": {"name": "bash"}}]})
        chat.end("without a result")
        chat.call("ls", {}, "some files")
        chat.start("build", "act", ["base"])
        assert self.reasons(chat) == {
            "base": "needed by build",
            "late": "waits for a result",
            "(unmarked 2)": "may go",
            "build": "active",
        }
        chat.end()
        assert self.reasons(chat)["build"] == "not yet fully seen by the model"
        chat.say("done")
        assert self.reasons(chat)["build"] == "may go"
        assert self.reasons(chat)["(unmarked 4)"] == "not finished"

    def test_reasons_to_go(self) -> None:
        chat = Chat()
        chat.start("look", "expl")
        chat.call("grep", {}, "x" * 4_000)
        chat.call("read", {}, "x" * 4_000)
        chat.end("what it was")
        chat.start("fix", "act", ["look"])
        chat.call("edit", {}, "x" * 4_000)
        chat.end()
        chat.say("done")
        assert self.reasons(chat, budget=2_500)["fix"] == "gone"
        assert self.reasons(chat, budget=2_000)["look"] == "may go further"
        kept = wane.Policy.paper()
        assert self.reasons(chat, budget=80, policy=kept)["look"] == "description stays"
        assert self.reasons(chat, budget=1)["look"] == "gone"

    def test_work_ahead_of_the_first_start(self) -> None:
        chat = Chat()
        chat.call("ls", {}, "some files")
        chat.start("look", "expl")
        chat.end("what it was")
        chat.say("done")
        assert self.reasons(chat)["(unmarked 0)"] == "may go"
        assert self.reasons(chat, policy=wane.Policy.paper())["(unmarked 0)"] == "never evicted"
        plan = wane.plan(chat.messages, budget=10**6)
        assert [layout.role_of(episode) for episode in plan.episodes] == [Role.PROLOGUE, Role.EXPL, Role.IMPLICIT]

    def test_notices_are_a_kind_of_their_own(self) -> None:
        chat = Chat()
        chat.user(NOTICE)
        chat.start("look", "expl")
        chat.call("read", {}, "x" * 400)
        chat.user(NOTICE * 2)
        chat.end("what it was")
        chat.say("done")
        plan = wane.plan(chat.messages, budget=130, policy=wane.Policy(guard=0.0))
        blocks = layout.blocks(plan.item_kinds, plan.item_tokens, plan.episodes, plan.visible)
        rows = {row.name: row for row in layout.rows(blocks, plan.episodes, plan.report.policy)}
        size = wane.chars(NOTICE)
        # Ahead of the first answer it stands with the system's words (R15).
        opening = "(opening and standing notices)"
        assert rows[opening] == Row(Role.NOTICE, opening, size, size, why="never evicted")
        later = Row(Role.NOTICE, "(notices)", wane.chars(NOTICE * 2), 0, why="evicted with their episodes")
        assert rows["(notices)"] == later
        look = layout.held_by(blocks)[plan.episodes[0].number]
        assert rows["look"].before == look[0] - later.before
        assert "N notices" in "\n".join(draw_lines(WindowPicture(blocks, 130)))

    def test_an_unfinished_episode_of_which_calls_were_taken_says_so(self) -> None:
        chat = Chat()
        chat.start("never-ends", "expl")
        for _ in range(3):
            chat.call("read", {}, "x" * 4_000)
        plan = wane.plan(chat.messages, budget=2_000)
        blocks = layout.blocks(plan.item_kinds, plan.item_tokens, plan.episodes, plan.visible)
        (row,) = layout.episode_rows(blocks, plan.episodes, plan.report.policy)
        assert (row.level, row.why) == ("complete", "active, partly evicted")
        assert row.after < row.before
        (row,) = layout.episode_rows(blocks, plan.episodes, plan.report.policy, done=False)
        assert row.why == "active"
