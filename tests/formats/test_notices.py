"""Notices: what each mark tells, what stays a person's, and how each format takes messages apart by them (R15)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

from wane import ContextWindow, Kind, Policy
from wane.core import Standing
from wane.formats import Format, Transcript, get_format
from wane.formats.message_format import Part
from wane.formats.notices import (
    MARKS,
    MarkForm,
    NoticeMark,
    has_notice_behind,
    has_prompt,
    is_notice,
    is_persons,
    stated_in,
)
from wane.formats.openai import NON_TEXT_TOKENS

ROWS = [pytest.param(row, id=f"{client}: {row.mark!r}") for client, rows in MARKS.items() for row in rows]
REMINDER = "<system-reminder>\nToday's date is 2026-11-22.\n</system-reminder>"
QUEUED = "The user sent a new message while you were working:\nlook at b, too\n\nThis is how it comes."
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def of(*forms: MarkForm, rows: Any = ROWS) -> list[Any]:
    return [param for param in rows if param.values[0].form in forms]


def specimen(row: NoticeMark) -> str:
    """A text as a client writes it."""
    mark = row.mark.replace("*", "PostToolUse:Read" if row.mark.startswith("*") else "/home/me/a file.txt")
    if row.form is MarkForm.SECTION:
        return f"{mark}{'from=' + json.dumps('x') + '>' if mark.endswith(' ') else ''}\nbody\n{row.end}\n"
    if row.form is MarkForm.LINE:
        return f"<task-notification>\nbody\n</task-notification>\n{mark}"
    return f"{mark}{'' if row.form in (MarkForm.WHOLE, MarkForm.MEDIA) else ' body'}{row.end}"


# What marks tell


@pytest.mark.parametrize("row", of(MarkForm.SECTION, MarkForm.LINE, MarkForm.START, MarkForm.WHOLE, MarkForm.MEDIA))
def test_a_mark_tells_a_notice(row: NoticeMark) -> None:
    text = specimen(row)
    assert is_notice(text, system=row.system)
    assert is_notice(f"\n{text} ", system=row.system)
    assert is_notice(text, system=True)
    assert is_notice(text) is not row.system
    assert not is_notice(f"What is this? {text}", system=row.system)
    assert not is_persons(text)


STANDING = [param for param in ROWS if param.values[0].standing is not None]


@pytest.mark.parametrize("row", STANDING)
def test_a_mark_tells_what_a_notice_states(row: NoticeMark) -> None:
    text, stated = specimen(row), (row.standing,)
    assert stated_in(text, system=row.system) == stated
    if row.form is MarkForm.START:
        assert stated_in(f"<system-reminder>\n{text}\n</system-reminder>") == stated
        both = f"{REMINDER}\n<system-reminder>\n{text}\n</system-reminder>"
        assert set(stated_in(both)) == {Standing("date"), row.standing}
        assert stated_in(f"Stop hook feedback:\n\n{text}") == ()
    if row.system and row.form is MarkForm.START:
        assert stated_in(f"<total_tokens>9 tokens left</total_tokens>\n\n{text}", system=True) == stated
    assert stated_in(f"It says: {text}", system=row.system) == ()


def test_a_reminder_of_a_mode_neither_states_nor_ends_it() -> None:
    assert stated_in("Plan mode still active (see full instructions earlier in conversation).", system=True) == ()
    assert stated_in("<system-reminder>\nThe task tools haven't been used recently.\n</system-reminder>") == ()


def test_one_message_may_state_much() -> None:
    """As Claude Code writes it for models that take system messages, here after `/compact`."""
    texts = [
        "The following deferred tools are now available via ToolSearch.\nCronCreate",
        "Available agent types for the Agent tool:\n- claude: all",
        "The following skills are available for use with the Skill tool:\n\n- tidy: Tidies up",
        "# Environment\nYou have been invoked in the following environment: \n - Platform: linux",
        "You are powered by the model named Opus 5. The exact model ID is claude-opus-5.",
        "<total_tokens>15000000 tokens left</total_tokens>",
    ]
    kinds = ["tools", "agents", "skills", "environment", "model"]
    plain = "\n\n".join(texts)
    tagged = "\n".join(f"<system-reminder>\n{text}\n</system-reminder>" for text in texts)
    for text in (plain, tagged):
        assert [one.kind for one in stated_in(text, system=True)] == kinds
    assert [one.kind for one in stated_in(tagged)] == kinds
    message = {"role": "system", "content": plain}
    transcript = Transcript(get_format("anthropic"))
    transcript.append({"role": "assistant", "content": "Hi."})
    (item,) = transcript.append(message)
    assert item.kind is Kind.NOTICE
    assert [one.kind for one in item.standing] == kinds


@pytest.mark.parametrize("row", of(MarkForm.SECTION, MarkForm.LINE, MarkForm.WHOLE, MarkForm.MEDIA))
def test_words_behind_a_mark_are_a_persons(row: NoticeMark) -> None:
    text = specimen(row)
    assert not is_notice(f"{text}\nGo on.", system=row.system)
    assert not is_notice(f"{text}\nGo on.\n{text}", system=row.system)


@pytest.mark.parametrize("row", [param for param in of(MarkForm.START) if param.values[0].end])
def test_what_begins_like_a_frame_and_does_not_end_like_it_is_a_persons(row: NoticeMark) -> None:
    assert not is_notice(f"{row.mark} is wrong, mend it.", system=row.system)


@pytest.mark.parametrize("row", of(MarkForm.PERSON))
def test_what_a_person_said_is_theirs_whatever_tag_is_around_it(row: NoticeMark) -> None:
    tag = row.mark[: row.mark.index(">") + 1].split(" ")[0].strip("<>") if row.mark.startswith("<") else ""
    text = f"{row.mark}\nlook at b, too{f'</{tag}>' if tag else ''}"
    assert is_persons(text)
    assert not is_notice(text)
    assert not is_notice(f"{REMINDER}\n{text}")


def test_an_answer_in_a_notification_is_a_persons() -> None:
    """As Kimi Code 2.1.0 writes it, with an id for each task."""
    ids = 'id="task:question-8a41f0c2:completed" category="task" type="task.completed" source_kind="background_task"'
    answered = (
        f'<notification {ids} source_id="question-8a41f0c2" agent_id="main">\nTitle: Background question answered'
    )
    body = "\nSeverity: success\n<answer>\nTake the second.\n</answer>\n</notification>"
    assert is_persons(answered + body)
    assert not is_notice(answered + body)
    assert is_notice(answered.replace("answered", "dismissed") + body)


@pytest.mark.parametrize("row", of(MarkForm.BEHIND))
def test_a_result_says_that_a_notice_is_behind_it(row: NoticeMark) -> None:
    assert has_notice_behind(f"{row.mark}tidy")
    assert not has_notice_behind(f"It says {row.mark}tidy")


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>\na\n</system-reminder>\n\n<task-notification>b</task-notification>",
        "<bash-stdout>a\nb</bash-stdout><bash-stderr></bash-stderr>",
        "<system-reminder></system-reminder>",
        "[Request interrupted by user]\n",
        "Tool loaded.",
        "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr><bash-exit-code>1</bash-exit-code>",
        '<agent-message from="tests">\nAll pass.\n</agent-message>',
        "<system-reminder>\nCut off.\n</system-reminder>\n<interrupted-output>\nThe cause\n</interrupted-output>",
        "[Image: original 2000x1000, displayed at 1000x500. Multiply coordinates by 2.00 to map to original image.]",
        "Another Claude session sent a message:\nDone.\n\nThis came from another Claude session",
        "The previous request exceeded the provider's size limit due to large media attachments. The conversation",
        " Use the above message and context to generate a prompt and call the task tool with subagent: review",
        "<mode_changed_notice>\nplan\n</mode_changed_notice>",
        "I ran the following shell command:\n```sh\nls\n```\n\nThis produced the following result:\n```\na\n```",
        "Background execution update:\n<background_output>\nok\n</background_output>\n\nA previously",
        "Base directory for this skill: /work/.claude/skills/tidy\n\n# Tidy\n\nSort the lines.",
        "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>",
    ],
)
def test_what_clients_write_is_a_notice(text: str) -> None:
    assert is_notice(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Go.",
        "<div>a</div>",
        "<system-reminder>",
        "</system-reminder>",
        "<system-reminder>a",
        "<system-reminder>a</task-notification>",
        "<system-reminders>a</system-reminders>",
        "<system-reminder>a</system-reminder> b <system-reminder>c</system-reminder>",
        "Why is <system-reminder>a</system-reminder> there?",
        "<command-message>tidy</command-message>\n<command-name>/tidy</command-name>\n<command-args>it</command-args>",
        "<command-name>/model</command-name>\n  <command-message>model</command-message>",
        "<bash-input>ls</bash-input>",
        'See:\n\n<pasted_content id="fe91">\n<system-reminder>a</system-reminder>\n</pasted_content id="fe91">',
        "[Request interrupted by user] is what it says, why?",
        "I ran the following shell command: ls. Why does it fail?",
        "[Image: original.png] is wrong",
        "Continue from where you left off.",
        "User hints:\n<user_input>\n- use tabs\n</user_input>\n\nInternal instruction: Re-evaluate the active plan",
        "<system-reminder>\nA message arrived in the bound thread while you were working:\nStop.\n</system-reminder>",
        "<system-reminder>\nA message arrived from telegram while you were working:\nStop.\n</system-reminder>",
        "Tool loaded. Now use it.",
        "# AGENTS.md instructions are missing: write some.",
        QUEUED,
    ],
)
def test_what_a_person_types_is_theirs(text: str) -> None:
    assert not is_notice(text)


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_judged_and_none_is_changed(text: str, system: bool) -> None:
    assert is_notice(text, system=system) in (True, False)
    assert not has_prompt(text)


def test_prompts_at_the_end_of_a_result_make_it_a_persons() -> None:
    prompt = f"<system-reminder>\n{QUEUED}\n</system-reminder>"
    assert has_prompt(f"found\n\n{prompt}\n\n{REMINDER}")
    assert has_prompt(f"found\n\n{REMINDER}\n\n{prompt}\n")
    # A file that speaks of prompts holds none.
    for result in (f"found\n\n{REMINDER}", f"{prompt}\n\nis what it looks like", f"1: {QUEUED}"):
        assert not has_prompt(result)


# Formats


def kinds(format_: Format[Any], message: Any) -> list[tuple[str, str]]:
    return [(part.kind.value, part.text) for part in format_.parts(message)]


def chat(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def responses(role: str, *texts: str, kinds: list[str] | None = None) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    about = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": kinds}} if kinds else {}
    return {"items": [{"type": "message", "role": role, "content": content, **about}]}


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_chat_messages_of_one_text(role: str) -> None:
    openai = get_format("openai")
    kind = "user" if role == "user" else "system"
    assert kinds(openai, {"role": role, "content": REMINDER}) == [("notice", REMINDER)]
    assert kinds(openai, {"role": role, "content": "Go."}) == [(kind, "Go.")]
    assert kinds(openai, {"role": role, "content": f"{REMINDER} Go."}) == [(kind, f"{REMINDER} Go.")]


def test_chat_messages_of_several_texts() -> None:
    openai = get_format("openai")
    message = chat("user", REMINDER, "Go", " on.", REMINDER, REMINDER)
    message["content"][3:3] = [{"type": "image_url", "image_url": {"url": "x"}}]
    assert kinds(openai, message) == [("notice", REMINDER), ("user", "Go on."), *[("notice", REMINDER)] * 2]
    assert openai.parts(message)[1].extra_tokens == NON_TEXT_TOKENS
    assert openai.keep(message, [1, 3]) == {**message, "content": [*message["content"][1:4], message["content"][5]]}


@pytest.mark.parametrize("mark", ["Attached image(s) from tool result:", "Attached media from tool result:"])
def test_images_that_a_tool_gave_are_the_harness_s(mark: str) -> None:
    """As pi 1.6.0 and OpenCode 1.18.33 send them where a result takes text alone."""
    image = {"type": "image_url", "image_url": {"url": "x"}}
    message: Any = {"role": "user", "content": [{"type": "text", "text": mark}, image, image]}
    openai, anthropic, responses = map(get_format, ("openai", "anthropic", "openai_responses"))
    assert kinds(openai, message) == [("notice", mark), ("notice", ""), ("notice", "")]
    assert openai.parts(message)[1].extra_tokens == NON_TEXT_TOKENS
    assert kinds(anthropic, {**message, "content": [message["content"][0], IMAGE]}) == [
        ("notice", mark),
        ("notice", ""),
    ]
    item: Any = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": mark}]}
    item["content"].append({"type": "input_image", "image_url": "x"})
    assert kinds(responses, {"items": [item]}) == [("notice", mark)]
    message["content"] = [image, message["content"][0], image]
    assert [kind for kind, _ in kinds(openai, message)] == ["user", "notice", "notice"], "the first is a person's"
    item["content"].append({"type": "input_text", "text": "What is this?"})
    assert [kind for kind, _ in kinds(responses, {"items": [item]})] == ["user"]


def test_blocks_of_anthropic_are_judged_each_by_itself() -> None:
    anthropic = get_format("anthropic")
    skill = "Base directory for this skill: /x\n\n# Tidy"
    message = chat("user", REMINDER, "Go on.", skill, QUEUED)
    message["content"][:0] = [{"type": "tool_result", "tool_use_id": "c1", "content": "Launching skill: tidy"}, IMAGE]
    assert [part.kind.value for part in anthropic.parts(message)] == [
        *("result", "user", "notice", "user", "notice", "user")
    ]
    assert anthropic.keep(message, [0, 3, 5])["content"] == [message["content"][place] for place in (0, 3, 5)]
    assert kinds(anthropic, {"role": "user", "content": REMINDER}) == [("notice", REMINDER)]


def test_what_a_tool_gave_is_the_text_behind_its_result() -> None:
    anthropic = get_format("anthropic")
    launched = [
        {"type": "tool_result", "tool_use_id": name, "content": f"Launching skill: {name}"} for name in ("one", "two")
    ]
    message = chat("user", "Review the changes.", "Greet Tom.", "And mine?")
    message["content"][:0] = launched
    assert [part.kind.value for part in anthropic.parts(message)] == ["result", "result", "notice", "notice", "user"]
    interrupted = chat("user", QUEUED, "Greet Tom.")
    interrupted["content"][:0] = launched[:1]
    assert [part.kind.value for part in anthropic.parts(interrupted)] == ["result", "user", "user"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (REMINDER, "notice"),
        ("<total_tokens>900 tokens left</total_tokens>\n\nUserPromptSubmit hook additional context: x", "notice"),
        ("PostToolUse:Read hook additional context: x", "notice"),
        ("From now on answer in French.", "system"),
    ],
)
def test_system_messages_of_anthropic(text: str, kind: str) -> None:
    anthropic = get_format("anthropic")
    for content in (text, [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]):
        assert kinds(anthropic, {"role": "system", "content": content}) == [(kind, text)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (responses("user", "Go."), "user"),
        (responses("user", REMINDER), "notice"),
        (responses("user", REMINDER, "Go."), "user"),
        (responses("developer", "PROMPT-HOOK"), "system"),
        (responses("developer", "PROMPT-HOOK", kinds=["hooks.additional_context"]), "notice"),
        (responses("developer", "<collaboration_mode># Plan</collaboration_mode>"), "notice"),
        (responses("user", "# AGENTS.md instructions\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>", REMINDER), "notice"),
        (responses("user", REMINDER, kinds=["user.text"]), "user"),
        (responses("user", "a", "b", kinds=["agents_md.instructions", "user.text"]), "user"),
        (responses("user", "a", REMINDER, kinds=["agents_md.instructions", "unknown"]), "notice"),
        (responses("user", "a", "b", kinds=["agents_md.instructions"]), "user"),
        (responses("user", '<codex_internal_context source="user_goal">x</codex_internal_context>'), "user"),
        (responses("user", '<codex_internal_context source="goal">x</codex_internal_context>'), "notice"),
        ({"items": [{"type": "agent_message", "content": "Message Type: NEW_TASK\nPayload:\nx"}]}, "user"),
        ({"items": [{"type": "agent_message", "content": "Message Type: FINAL_ANSWER\nPayload:\nx"}]}, "notice"),
    ],
)
def test_items_of_responses_are_judged_as_a_whole(message: dict[str, Any], kind: str) -> None:
    (part,) = get_format("openai_responses").parts(message)
    assert part.kind.value == kind


# In a history


def test_ahead_of_the_first_answer_the_systems_words_are_the_systems() -> None:
    words = "<permissions instructions>x</permissions instructions>"
    transcript = Transcript(get_format("openai"))
    history = (
        {"role": "developer", "content": words},
        {"role": "user", "content": REMINDER},
        {"role": "assistant", "content": "Yes."},
        {"role": "developer", "content": words},
    )
    taken = [[item.kind.value for item in transcript.append(message)] for message in history]
    parts = [[part.kind.value for part in transcript.parts(number)] for number in range(4)]
    assert taken == parts == [["system"], ["notice"], ["text"], ["notice"]]
    assert transcript.text([0, 3]) == f"[system]\n{words}\n\n[notice]\n{words}"


def test_a_system_prompt_in_mid_conversation_goes_and_the_first_stays() -> None:
    window, transcript = ContextWindow(1, Policy(low_water=1.0)), Transcript(get_format("pydantic_ai"))
    messages = [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("Go.")]),
        ModelResponse([TextPart("a")]),
        ModelRequest([SystemPromptPart("The deploy is done." * 9)]),
        ModelResponse([TextPart("b")]),
        ModelRequest([UserPromptPart("On.")]),
        ModelResponse([TextPart("c")]),
    ]
    for message in messages:
        window.extend(transcript.append(message))
    window.fit()
    assert [part.content for message in transcript.view(window.visible) for part in message.parts] == [
        *("Be brief.", "Go.", "On.", "c")
    ]


def call_with_remark(id_: str, said: str = "") -> list[dict[str, Any]]:
    """A call of a tool and its result, at the end of which a person may have said something."""
    told = f"\n\n<system-reminder>\nThe user sent a new message while you were working:\n{said}\n</system-reminder>"
    found = "found " * 50 + (told if said else "")
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": id_, "name": "grep", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": found}]},
    ]


def test_a_result_in_which_a_person_spoke_stays_with_its_call() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for number in range(6):
        messages += call_with_remark(f"c{number}", "look at b, too" if number == 2 else "")
    messages += [{"role": "assistant", "content": "Done."}]
    saved = copy.deepcopy(messages)
    for policy in (Policy(), Policy(overflow="strip", low_water=0.01)):
        window, transcript = ContextWindow(20, policy), Transcript(get_format("anthropic"))
        for message in messages:
            window.extend(transcript.append(message))
        window.fit()
        assert transcript.view(window.visible) == [messages[0], *messages[5:7], messages[-1]]
    assert messages == saved


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                *("user", "notice", "both", "system"),
                *("call", "call"),
            ]
        ),
        max_size=14,
    ),
    st.integers(1, 300),
)
def test_what_a_person_said_is_always_in_view(turns: list[str], budget: int) -> None:
    anthropic = get_format("anthropic")
    messages: list[dict[str, Any]] = [chat("user", REMINDER, "Go.")]
    for number, turn in enumerate(turns):
        if turn == "call":
            messages += call_with_remark(f"c{number}", "mine" if number % 3 == 0 else "")
            continue
        messages.append({"role": "assistant", "content": f"Answer {number}, which is long enough to be evicted."})
        texts = {"user": [f"Turn {number}."], "notice": [REMINDER], "both": [REMINDER, f"Turn {number}.", REMINDER]}
        messages.append({"role": "system", "content": REMINDER} if turn == "system" else chat("user", *texts[turn]))
    messages.append({"role": "assistant", "content": "Done."})
    window, transcript = ContextWindow(budget), Transcript(anthropic)
    for message in messages:
        window.extend(transcript.append(message))
    window.fit()

    def user_parts(history: list[Any]) -> list[Part]:
        return [part for message in history for part in anthropic.parts(message) if part.kind is Kind.USER]

    view = transcript.view(window.visible)
    assert user_parts(view) == user_parts(messages)
    assert [part.text for message in view[:1] for part in anthropic.parts(message)] == [REMINDER, "Go."]
