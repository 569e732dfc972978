"""What other distributions add: a strategy, a reader, a command and a store; and what is said of faulty ones."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import SOURCE, Outcome, Run, spawn

__all__ = ["spawn"]

POSTCARDS = Path(__file__).parent / "postcards"
CHAT = [
    {"role": "user", "content": "Go."},
    *({"role": role, "content": f"{role} {number}"} for number in range(4) for role in ("assistant", "user")),
    {"role": "assistant", "content": "Done."},
]
CARDS = [
    {"from": "me", "postcard": "Wish you were here."},
    {"from": "you", "postcard": "Coming.", "paid": 1200},
    {"from": "me", "postcard": "Bring rain."},
    {"from": "you", "postcard": "Packed.", "paid": 1300},
]
LOADED = """
import sys
from wane.cli.main import main
code = main()
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""

Points = Mapping[str, Mapping[str, str]]


def install(site: Path, name: str, points: Points, files: Mapping[str, str] | None = None) -> None:
    """Write what an installer writes of a distribution's entry points, and its modules."""
    folder = site / f"{name}-1.2.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", encoding="utf-8")
    lines: list[str] = []
    for group, values in points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in values.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    for file, text in (files or {}).items():
        (site / file).write_text(text, encoding="utf-8")


class Site:
    """A folder of installed distributions, and the command that finds them."""

    def __init__(self, folder: Path, spawn: Run) -> None:
        self.folder = folder
        self._spawn = spawn

    def install(self, name: str, points: Points, **files: str) -> None:
        install(self.folder, name, points, {f"{file}.py": text for file, text in files.items()})

    def wane(self, *args: str | Path, env: Mapping[str, str] | None = None, **options: str) -> Outcome:
        path = os.pathsep.join((str(SOURCE), str(self.folder)))
        return self._spawn(*args, env={"PYTHONPATH": path, "COLUMNS": "80", **(env or {})}, **options)


@pytest.fixture
def site(tmp_path: Path, spawn: Run) -> Site:
    return Site(tmp_path / "site", spawn)


@pytest.fixture
def postcards(site: Site) -> Site:
    """With a distribution that adds one of each kind."""
    declared = tomllib.loads((POSTCARDS / "pyproject.toml").read_text(encoding="utf-8"))
    install(site.folder, "postcards", declared["project"]["entry-points"])
    shutil.copytree(POSTCARDS / "postcards", site.folder / "postcards")
    return site


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT), encoding="utf-8")
    return path


def replayed(done: Outcome) -> dict[str, dict[str, object]]:
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)["strategies"]}


class TestStrategy:
    def test_it_is_replayed_by_its_name(self, postcards: Site, chat: Path) -> None:
        rows = replayed(postcards.wane("replay", chat, "--strategy", "latest,none", "--json"))
        assert rows["latest"]["view_tokens"] < rows["none"]["view_tokens"]  # type: ignore[operator]

    def test_an_unknown_name_is_told_with_it(self, postcards: Site, chat: Path) -> None:
        done = postcards.wane("replay", chat, "--strategy", "newest")
        assert done.code == 2
        assert ", latest" in done.err

    @pytest.mark.full
    def test_a_live_agent_can_use_it(self, postcards: Site) -> None:
        code = """
from wane import Conversation
chat = Conversation(strategy="latest", format="openai")
for number in range(6):
    chat.append({"role": ("user", "assistant")[number % 2], "content": f"words {number}"})
print([message["content"] for message in chat.request().messages])
"""
        done = postcards.wane(code=code)
        assert done.out == "['words 2', 'words 3', 'words 4', 'words 5']\n", done.err

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("import nowhere", "the strategy 'faulty' needs nowhere, which is not installed. Install it with: "),
            ("import faulty.inside", "No module named 'faulty.inside'"),
            ("1 / 0", "ZeroDivisionError: division by zero (faulty.py:1)"),
            ("Faulty = 1", "is no subclass of wane.strategies.strategy.Strategy"),
            ("", "AttributeError: module 'faulty' has no attribute 'Faulty'"),
            ("from wane.strategies.strategy import Strategy as Faulty", "its class lacks add, fit"),
            ("from wane.strategies.none import Uncapped as Faulty", "its class needs the name 'faulty' and a summary"),
            (
                """from wane.strategies.none import Uncapped
class Faulty(Uncapped):
    name, summary = "faulty", "fails"
    def fit(self, *, cold=False): [][1]""",
                "IndexError: list index out of range (faulty.py:4)",
            ),
        ],
    )
    def test_a_faulty_one_is_refused_by_name(self, site: Site, chat: Path, text: str, why: str) -> None:
        site.install("faults", {"wane.strategies": {"faulty": "faulty:Faulty"}}, faulty=text)
        done = site.wane("replay", chat, "--strategy", "faulty")
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), done.err
        assert why in done.err
        if "which is not installed" not in why:
            assert done.err.startswith("wane: the strategy 'faulty' of faults 1.2 cannot be used: ")
            assert done.err.endswith("upgrade faults, or remove it\n")


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".postcards" / "summer.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(card)}\n" for card in CARDS), encoding="utf-8")
    return path


class TestReader:
    @pytest.mark.parametrize("options", [(), ("--format", "postcard")], ids=["recognised", "named"])
    def test_a_replay_reads_its_format(self, postcards: Site, cards: Path, options: tuple[str, ...]) -> None:
        done = postcards.wane("replay", cards, "--strategy", "none", "--json", *options)
        assert replayed(done)["none"]["model_calls"] == 2
        [session] = json.loads(done.out)["sessions"]
        assert (session["source"], session["title"]) == ("postcard", "Wish you were here.")

    @pytest.mark.full
    def test_sessions_at_its_places_are_reported_and_viewed(self, postcards: Site, cards: Path) -> None:
        home = {"HOME": str(cards.parents[1])}
        report = postcards.wane("report", "--json", env=home)
        assert report.code == 0, report.err
        assert "postcard" in report.out
        page = cards.with_suffix(".html")
        done = postcards.wane("view", "summer", "--output", page, env=home)
        assert done.code == 0, done.err
        assert "Wish you were here." in page.read_text(encoding="utf-8")

    def test_a_format_that_nothing_reads_is_told_with_its_name(self, postcards: Site, chat: Path) -> None:
        assert "pydantic_ai, atif or postcard" in postcards.wane("replay", chat, "--format", "letter").err

    @pytest.mark.full
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("NAME = 'faulty'", "it lacks TITLE, recognises, read or sessions"),
            ("NAME, TITLE, recognises, read = 'other', '', None, None", "its NAME is 'other'"),
            (
                "NAME, TITLE, recognises = 'faulty', 'F', lambda head: False\ndef read(path): {}[path]",
                "KeyError: ",
            ),
        ],
    )
    def test_a_faulty_one_is_refused_by_name_and_other_formats_are_read(
        self, site: Site, chat: Path, text: str, why: str
    ) -> None:
        site.install("faults", {"wane.readers": {"faulty": "faulty"}}, faulty=text)
        done = site.wane("replay", chat, "--format", "faulty")
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), done.err
        assert done.err.startswith("wane: the reader 'faulty' of faults 1.2 cannot be used: ")
        assert why in done.err
        assert replayed(site.wane("replay", chat, "--strategy", "none", "--json"))


class TestStore:
    def test_it_is_opened_by_its_scheme(self, postcards: Site) -> None:
        code = """
from wane.proxy.store import open_store
store = open_store("mailbox://home", 60)
print(type(store).__name__, store.location, store.keep)
"""
        assert postcards.wane(code=code).out == "Mailbox mailbox://home 60\n"

    @pytest.mark.full
    def test_what_is_no_store_is_refused(self, site: Site) -> None:
        site.install("faults", {"wane.stores": {"mailbox": "faulty:open_it"}}, faulty="def open_it(*_): return 1")
        done = site.wane("verify", "x", "--store", "mailbox://home")
        assert (done.code, done.out) == (1, "")
        assert "the store 'mailbox' of faults 1.2 cannot be used: faulty:open_it returned int, not " in done.err


class TestNames:
    def test_nothing_of_wane_is_replaced(self, site: Site, chat: Path) -> None:
        points = {"wane.strategies": {"none": "thief:X"}, "wane.commands": {"plan": "thief:X"}}
        site.install("thief", points, thief="X = 1")
        assert replayed(site.wane("replay", chat, "--strategy", "none", "--json"))
        page = " ".join(site.wane("--help").out.split())
        assert "the command 'plan' of thief 1.2 cannot be used: Wane has a command of this name;" in page

    @pytest.mark.parametrize(
        ("points", "line", "ignored"),
        [
            ({"wane.strategies": {"none": "thief:X"}}, ("replay", "--strategy", "cwl,none"), "strategy 'none'"),
            ({"wane.strategies": {"cwl": "thief:X"}}, ("plan",), ""),
            ({"wane.readers": {"codex": "thief:X"}}, ("replay", "--format", "codex"), "reader 'codex'"),
            ({"wane.commands": {"plan": "thief:X"}}, ("plan",), "command 'plan'"),
            ({"wane.commands": {"view": "thief:X"}}, ("plan",), ""),
        ],
    )
    def test_who_names_what_is_not_used_is_told(
        self, site: Site, chat: Path, points: Points, line: tuple[str, ...], ignored: str
    ) -> None:
        site.install("thief", points, thief="X = 1")
        said = site.wane(*line, chat, "--json").err
        kind = ignored.partition(" ")[0]
        sentence = (
            f"the {ignored} of thief 1.2 cannot be used: Wane has a {kind} of this name; upgrade thief, or remove it"
        )
        assert (sentence in said) if ignored else ("thief" not in said)

    @pytest.mark.full
    def test_a_name_that_two_distributions_add_is_refused(self, postcards: Site, chat: Path) -> None:
        postcards.install("zebra", {"wane.strategies": {"latest": "zebra:Latest"}})
        done = postcards.wane("replay", chat, "--strategy", "latest")
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            "wane: the strategy 'latest' of zebra 1.2 cannot be used: postcards adds this strategy, too; "
            "remove zebra or postcards\n"
        )

    @pytest.mark.full
    def test_a_value_that_names_no_object_is_refused(self, site: Site, chat: Path) -> None:
        site.install("odd", {"wane.strategies": {"odd": "two words"}})
        done = site.wane("replay", chat, "--strategy", "odd")
        assert "its entry point is 'two words', not 'module:object'" in done.err


class TestCommand:
    def test_it_runs_and_has_help(self, postcards: Site) -> None:
        assert postcards.wane("greet", "--to", "Ada").out == "Greetings to Ada!\n"
        assert "--to NAME" in postcards.wane("greet", "--help").out
        assert "\n  greet " in postcards.wane("--help").out
        assert "did you mean greet?" in postcards.wane("gret").err

    @pytest.mark.quick(2)
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("import nowhere", "the command 'greet' needs nowhere, which is not installed"),
            ("GREET = 1", "is no wane.cli.parser.Command with the name 'greet'"),
            (
                "from wane.cli.parser import Command\nGREET = Command('greet', 'bad:Gone', 'bad:gone')",
                "AttributeError: module 'bad' has no attribute 'Gone'",
            ),
        ],
    )
    def test_a_faulty_one_is_named_in_help_and_stops_no_other(
        self, site: Site, chat: Path, text: str, why: str
    ) -> None:
        site.install("faults", {"wane.commands": {"greet": "bad:GREET"}}, bad=text)
        done = site.wane("greet")
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert why in done.err
        page = site.wane("--help")
        assert page.code == 0
        assert why in " ".join(page.out.split())
        assert site.wane("plan", chat, "--json").code == 0

    def test_one_that_fails_is_named(self, site: Site) -> None:
        text = """
from dataclasses import dataclass
from wane.cli.parser import Command
@dataclass
class Options:
    'Fail.'
def fail(options):
    raise ValueError("no stamps")
GREET = Command("greet", "bad:Options", "bad:fail")
"""
        site.install("faults", {"wane.commands": {"greet": "bad:GREET"}}, bad=text)
        done = site.wane("greet")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(
            "wane: the command 'greet' of faults 1.2 cannot be used: ValueError: no stamps (bad.py:8); upgrade faults"
        )


class TestLoading:
    """An extension is loaded when its name is asked for, and the metadata of all packages never."""

    @pytest.mark.parametrize("args", [("plan", "chat.json", "--json"), ("--help",), ("greet",)], ids=" ".join)
    def test_a_command_loads_no_metadata_and_no_plugin_but_its_own(
        self, postcards: Site, chat: Path, args: tuple[str, ...]
    ) -> None:
        done = postcards.wane(*args, code=LOADED)
        assert done.code == 0
        modules = set(done.err.split())
        assert "importlib.metadata" not in modules
        assert ("postcards.greeting" in modules) == (args != ("plan", "chat.json", "--json"))
        assert "wane.strategies.registry" not in modules or args[0] == "plan"
