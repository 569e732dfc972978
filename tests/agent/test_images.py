from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from tests.agent.provider import Serve, serve
from tests.agent.test_chat import Terminal, converse
from tests.agent.work import working
from wane.agent.images import MAX_BYTES, images_in, media_type
from wane.testing import Reply

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    for name in ("a.png", "two words.png", "it's.png"):
        (tmp_path / name).write_bytes(PNG)
    (tmp_path / "b.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    (tmp_path / "text.png").write_text("no image")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("look at a.png", ["a.png"]),
        ("look at @a.png, and (b.jpg).", ["a.png", "b.jpg"]),
        ("'two words.png' and \"it's.png\"", ["two words.png", "it's.png"]),
        (r"two\ words.png", ["two words.png"]),
        ("{here}/a.png a.png", ["a.png"]),
        ("file://{here}/two%20words.png", ["two words.png"]),
        ("text.png absent.png a.pngx apng ~nobody-here/a.png", []),
        ("it's a.png", ["a.png"]),
    ],
)
def test_images_are_found_by_their_paths(shots: Path, text: str, names: list[str]) -> None:
    found = images_in(text.replace("{here}", str(shots)), shots)
    assert found == [shots / name for name in names]


def test_the_kind_is_told_by_the_first_bytes(shots: Path) -> None:
    assert media_type(shots / "a.png") == "image/png"
    (shots / "a.png").write_bytes(b"RIFF\0\0\0\0WEBPxx")
    assert media_type(shots / "a.png") == "image/webp"
    (shots / "a.png").write_bytes(PNG + b"\0" * MAX_BYTES)
    assert media_type(shots / "a.png") is None
    assert media_type(shots) is None


def test_the_model_sees_the_image_also_in_a_resumed_session(repository: Path) -> None:
    (repository / "shot.png").write_bytes(PNG)

    async def scene(at: Terminal) -> None:
        shown = await at.answers("what is in @shot.png?", "A cat.")
        # A long path fills several lines.
        assert f"(image{repository / 'shot.png'})" in "".join(shown.split())

    async def again(at: Terminal) -> None:
        await at.answers("and its colour?", "Grey.")

    data = base64.b64encode(PNG).decode()
    requests = converse(serve("openai_model"), repository, [Reply("A cat."), Reply("Grey.")], scene, again)
    assert [data in str(request.body) for request in requests] == [True, True]


def test_an_image_that_has_gone_is_left_out(serve_model: Serve, repository: Path) -> None:
    with working(serve_model, repository, [Reply("ok")]) as at:
        assert asyncio.run(at.session.run("look", images=[repository / "gone.png"])).output == "ok"
