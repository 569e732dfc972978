"""The live page in a browser: what it shows, that it stays live, and that nothing in a session can act.

One browser for all, as it takes a second to start.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.lab.browser import Browser, needs_chromium
from tests.proxy.status.support import ToldIndex, serving, session
from wane.core import Room
from wane.proxy.server.status import SessionPages

pytestmark = needs_chromium

PATIENCE = 90  # seconds
HOSTILE = (
    "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>{{style}}\u202e\u2028"
    "javascript:window.hurt=1 \ud800&lt;b&gt;"
)


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser) -> Browser:
    shared_browser.errors.clear()
    shared_browser.requested.clear()
    shared_browser.look(1280, 900)
    return shared_browser


def visit(browser: Browser, url: str) -> None:
    """Open the page, and wait until the proxy's first answer is drawn."""
    # Away from the page of before first: it would look like this one.
    browser.ask("Page.navigate", url="about:blank")
    until(browser, "location.href === 'about:blank'")
    browser.ask("Page.navigate", url=url)
    until(browser, "document.querySelector('#pulse')?.textContent === 'live'")


def until(browser: Browser, condition: str) -> None:
    """Wait until an expression holds in the page."""
    end = time.monotonic() + PATIENCE
    while not browser.run(condition):
        assert time.monotonic() < end, f"{condition} did not come true:\n{browser.run('document.body.innerText')}"
        time.sleep(0.02)


def point(browser: Browser, x: float, y: float, condition: str) -> None:
    """Move the pointer to a place until an expression holds: a page that was just drawn may miss a movement."""
    end = time.monotonic() + PATIENCE
    while not browser.run(condition):
        assert time.monotonic() < end, f"{condition} did not come true"
        browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        browser.settle()


def texts(browser: Browser, selector: str) -> list[str]:
    return list(browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(it => it.textContent)"))


def test_sessions_are_shown_with_what_there_is_to_know(browser: Browser) -> None:
    told = session(6, title="Make it fast")
    with serving(ToldIndex([told])) as url:
        visit(browser, url)
        assert browser.text(".session h2") == "Make it fast"
        assert texts(browser, ".meta bdi") == ["claude-sonnet-5", "42 requests"]
        assert (browser.text(".state"), browser.text(".id code")) == ("working", "00000006")
        assert browser.text(".said") == "62k of 99.4k set aside, 1 piece of work as a whole. Room for 42.6k more."
        assert texts(browser, ".money dd") == ["$4.50", "$0.00", "$10.50", "$10.50 saved"]
        browser.click(".holding summary")
        until(browser, "document.querySelectorAll('.episodes tbody tr').length === 9")
        assert browser.text(".episodes tbody tr:last-child").startswith("episode-5reading")
        label = browser.run("document.querySelector('.bar').getAttribute('aria-label')")
        first = "system prompt and tools 2,100; your messages 2,000; notices of your agent 600; reading "
        assert label.startswith(f"37,398 of 80,000 tokens: {first}")
        assert label.endswith("going on 10,700; free 42,602")
        assert not browser.errors
        assert set(browser.requested) - {"about:blank", "data:,"} == {url, f"{url}status"}


def test_a_card_says_that_the_budget_leaves_too_little_room(browser: Browser) -> None:
    little, enough = Room(80_000, system=60_000), Room(80_000, system=6_000)
    told = [session(6, room=little), session(7, room=enough), session(8, room=little, note="Not stored.")]
    with serving(ToldIndex(told)) as url:
        visit(browser, url)
        assert texts(browser, ".warn:not([hidden])") == [little.warning, f"Not stored. {little.warning}"]


def test_a_bar_is_to_scale(browser: Browser) -> None:
    with serving(ToldIndex([session(6), session(7, view=100_000)])) as url:
        visit(browser, url)
        parts = "[...document.querySelectorAll('.bar')].map(it => [it.total, it.parts.map(p => [p.from, p.to])])"
        within, over = sorted(browser.run(parts), key=lambda it: it[0])
        for total, stretches in (within, over):
            assert stretches[0][0] == 0
            assert stretches[-1][1] == pytest.approx(total)
            assert all(one[1] == pytest.approx(two[0]) for one, two in pairwise(stretches))
        assert (within[0], over[0]) == (80_000, 100_000)
        limits = "[...document.querySelectorAll('.limit')].map(it => it.hidden ? '' : it.style.left).sort()"
        assert browser.run(limits) == ["", "80%"]
        assert any("20k over the budget." in said for said in texts(browser, ".over .said"))


def test_a_part_tells_what_it_is_under_the_pointer(browser: Browser) -> None:
    with serving(ToldIndex([session(6)])) as url:
        visit(browser, url)
        browser.click(".holding summary")
        browser.run("document.querySelector('.bar').scrollIntoView({block: 'center'})")
        box = browser.run("(({left, top}) => [left, top])(document.querySelector('.bar').getBoundingClientRect())")
        point(browser, box[0] + 5, box[1] + 5, "!document.querySelector('.tip.part').hidden")
        assert browser.text(".tip.part") == "system prompt and tools2,100"
        point(browser, 1, 1, "document.querySelector('.tip.part').hidden")


def test_the_chart_reads_its_requests_to_those_who_cannot_see_it(browser: Browser) -> None:
    with serving(ToldIndex([session(6)])) as url:
        visit(browser, url)
        label = browser.run("document.querySelector('.session .chart').getAttribute('aria-label')")
        assert label.startswith("The last 40 requests: the whole history is now 98,700 tokens, the last request held ")
        assert "work was set aside twice" in label
        browser.run("document.querySelector('.session .chart').focus()")
        browser.press("End")
        assert browser.text("#said").startswith("Request 42, ")
        assert browser.text("#said").endswith(", whole history 98,700, sent 37,700")
        browser.press("ArrowLeft")
        assert browser.text("#said").startswith("Request 41, ")


def test_tiles_add_up_what_stands_on_the_cards(browser: Browser) -> None:
    with serving(ToldIndex([session(6), session(3)])) as url:
        visit(browser, url)
        assert texts(browser, "#tiles .value") == ["$6.75", "$0.00", "$15.75", "$15.75 saved"]
        nets = sorted(texts(browser, ".money .net dd"))
        assert nets == ["$10.50 saved", "$5.25 saved"]


def test_tile_and_card_say_whose_prices_stand_in(browser: Browser) -> None:
    told = session(3)
    account = replace(told.money.account, assumed=Counter({"openai:gpt-5.2": 1}))
    with serving(ToldIndex([replace(told, money=replace(told.money, account=account))])) as url:
        visit(browser, url)
        assert "models without one count at the prices of openai:gpt-5.2" in texts(browser, "#tiles .bound")[0]
        said = browser.text("main")
        assert "Models without a known price count at the prices of openai:gpt-5.2." in said


def test_a_session_opens_with_the_key_alone(browser: Browser) -> None:
    """Who has no key gets the command instead, which reads files that only their owner can read."""
    told = session(6, session=f"{'0' * 24}-{'ab' * 8}")
    pages = SessionPages("the-key", lambda header, records: "")
    with serving(ToldIndex([told]), pages=pages) as url:
        visit(browser, url)
        assert texts(browser, ".open a") == []
        assert browser.text(".open code") == "wane view abababababab"
        browser.run("location.hash = 'key=the-key'")
        browser.run("location.reload()")
        until(browser, "document.querySelector('.open a')?.href.endsWith('?key=the-key')")


def test_under_wane_run_it_gives_no_advice_that_was_followed(browser: Browser) -> None:
    with serving(ToldIndex(), agent="claude") as url:
        visit(browser, url)
        assert browser.text("#empty h1") == "Waiting for the first request of claude"
        assert "BASE_URL" not in browser.text("#empty")


def test_no_two_pieces_of_work_are_called_alike(browser: Browser) -> None:
    told = session(1, episodes=5)
    names = (None, "reading-1:a.py", "work-2:b.py", "reading-3:a.py", None)
    pieces = (replace(it, name=name, number=at) for at, (it, name) in enumerate(zip(told.episodes, names, strict=True)))
    with serving(ToldIndex([replace(told, episodes=tuple(pieces))])) as url:
        visit(browser, url)
        browser.click(".holding summary")
        until(browser, "document.querySelectorAll('.episodes tbody tr').length > 5")
        assert texts(browser, ".episodes tbody th bdi")[-5:] == [
            "outside pieces of work #0",
            "#1 a.py",
            "b.py",
            "#3 a.py",
            "outside pieces of work #4",
        ]


def test_nothing_in_a_session_can_act(browser: Browser) -> None:
    told = session(3, title=HOSTILE, model=HOSTILE, note=HOSTILE, session=HOSTILE)
    shown = tuple(replace(it, name=HOSTILE, type=HOSTILE, state=HOSTILE) for it in told.episodes)
    with serving(ToldIndex([replace(told, episodes=shown)])) as url:
        visit(browser, url)
        browser.click(".holding summary")
        assert browser.text(".session h2") == HOSTILE
        assert browser.run("document.querySelectorAll('img, script:not(body > script)').length") == 0
        assert browser.run("window.hurt === undefined")
        assert not browser.errors
        # Even a hole in the page would let nothing in.
        with pytest.raises(AssertionError, match="TrustedHTML"):
            browser.run("document.body.innerHTML = '<img src=x>'")


def test_the_page_stays_live_and_leaves_what_stands_still(browser: Browser) -> None:
    index = ToldIndex([session(1, title="First"), session(2, title="Second")])
    with serving(index) as url:
        visit(browser, url)
        browser.run("window.second = document.querySelectorAll('.session')[1]; second.querySelector('summary').click()")
        index.sessions = [replace(index.sessions[0], requests=99), index.sessions[1], session(3, title="Third")]
        until(browser, "document.querySelectorAll('.session').length === 3")
        assert texts(browser, ".session h2") == ["First", "Second", "Third"]
        assert "99 requests" in texts(browser, ".meta")[0]
        assert browser.run(
            "second === document.querySelectorAll('.session')[1] && second.querySelector('details').open"
        )
        index.sessions = []
        until(browser, "!document.getElementById('empty').hidden")
        assert not texts(browser, ".session")


def test_the_page_says_when_the_proxy_is_gone_and_finds_it_again(browser: Browser) -> None:
    index = ToldIndex([session()])
    with serving(index) as url:
        visit(browser, url)
    port = int(url.split(":")[2].split("/")[0])
    until(browser, "!document.getElementById('lost').hidden")
    assert browser.text("#lost").startswith("The proxy does not answer. What is below is as of ")
    assert browser.text("#pulse") == "lost"
    assert texts(browser, ".session h2") == ["Fix the tests"]
    with serving(index, port=port):
        until(browser, "document.getElementById('lost').hidden")
        assert browser.text("#pulse") == "live"


def test_without_sessions_it_says_how_to_begin(browser: Browser) -> None:
    with serving(ToldIndex()) as url:
        visit(browser, url)
        origin = url.removesuffix("/wane/")
        assert browser.text("#empty h1") == "No sessions yet"
        assert texts(browser, "#empty pre")[0] == f"export ANTHROPIC_BASE_URL={origin}"
        assert texts(browser, "#empty pre")[1] == f"export OPENAI_BASE_URL={origin}/v1"


def test_a_person_on_a_phone_reaches_the_buttons_without_scrolling_sideways(browser: Browser) -> None:
    browser.look(390, 800, mobile=True)
    pages = SessionPages("the-key", lambda header, records: "")
    with serving(ToldIndex([session(6)]), pages=pages) as url:
        visit(browser, f"{url}#key=the-key")
        browser.click(".holding summary")
        assert browser.run("document.querySelectorAll('.choices button').length") > 0
        assert browser.run("(it => it.scrollWidth - it.clientWidth)(document.querySelector('.episodes'))") <= 0
        assert browser.text(".episodes td.kind:not(:empty)") in ("reading", "work")


def test_many_sessions_can_be_searched(browser: Browser) -> None:
    index = ToldIndex([session(number, title=f"Task {number}", episodes=60) for number in range(200)])
    with serving(index) as url:
        visit(browser, url)
        assert browser.text("#heading").startswith("200 sessions since ")
        assert browser.run("document.querySelectorAll('.session').length") == 200
        find = "{{ const it = document.getElementById('find'); it.value = {}; it.dispatchEvent(new Event('input')) }}"
        browser.run(find.format("'task 19'"))
        assert browser.run("document.querySelectorAll('.session:not([hidden])').length") == 11
        browser.run(find.format("'nothing like it'"))
        assert browser.text("#more") == "No session matches."


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_and_the_night(browser: Browser, width: int, dark: bool) -> None:
    browser.look(width, 800, dark=dark, mobile=width < 500)
    long = "averylongwordwithoutanybreak" * 8
    with serving(
        ToldIndex([session(2, title=long, model=long), session(3, episodes=200, view=130_000, note=long)])
    ) as url:
        visit(browser, url)
        browser.click(".holding summary")
        assert browser.run("document.documentElement.scrollWidth") <= width
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(20, 21, 24)" if dark else "rgb(250, 249, 247)")
