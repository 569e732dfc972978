from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wane.agent.config import AgentSettings, load_settings, project_file, user_file
from wane.agent.options import AgentOptions
from wane.conversation import ContextSettings
from wane.core import Policy
from wane.core.errors import ConfigError


class Places:
    """A project below a repository's root, and a config directory of the user that is empty."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "repo" / "sub"
        self.environ = {"WANE_CONFIG_DIR": str(root / "config")}
        for directory in (root / "repo" / ".git", self.cwd, root / "config"):
            directory.mkdir(parents=True)
        (root / "repo" / ".git" / "HEAD").touch()

    def user(self, text: str) -> None:
        """Write the user's settings."""
        user_file(self.environ).write_text(text, encoding="utf-8")

    def project(self, text: str) -> Path:
        """Write the project's settings."""
        path = self.cwd / ".wane.toml"
        path.write_text(text)
        return path

    def load(self, **options: Any) -> AgentSettings:
        return load_settings(AgentOptions(**{"cwd": self.cwd, **options}), self.environ)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_flags_before_project_before_user_before_defaults(places: Places) -> None:
    assert places.load() == AgentSettings()
    places.user('model = "a:user"\nbudget = "10k"\nrecall = false\nyolo = true\n')
    project = 'remind_at = 0.5\nbudget = 20000\npolicy = "paper"\nannotate = "infer"\n'
    (places.cwd.parent / ".wane.toml").write_text(project)
    context = ContextSettings(policy=Policy.paper(), recall=False, annotate="infer", remind_at=0.5)
    assert places.load(model="a:flag") == AgentSettings(model="a:flag", budget=20_000, context=context, yolo=True)
    assert places.load(annotate="model").context.annotate == "model"


@pytest.mark.skipif(os.name == "nt", reason="needs links")
@pytest.mark.parametrize("target", ["../../outside", "/proc/self/environ", "../.env"])
def test_a_projects_settings_are_a_file_of_the_project(target: str, places: Places) -> None:
    for path in (places.cwd.parent.parent / "outside", places.cwd.parent / ".env", places.cwd.parent / "inside"):
        path.write_text("mark_of_a_secret = 1\n" if path.name != "inside" else "cost_limit = 5\n")
    (places.cwd / ".wane.toml").symlink_to(target)
    with pytest.raises(ConfigError, match="no file of this project") as caught:
        places.load()
    assert "mark_of_a_secret" not in str(caught.value)
    (places.cwd / ".wane.toml").unlink()
    (places.cwd / ".wane.toml").symlink_to("../inside")
    assert places.load().cost_limit == 5


def test_a_project_only_lowers_limits_and_chooses_no_model(places: Places) -> None:
    places.project("cost_limit = 5\ntime_limit = 10\npatience = 60\n")
    settings = places.load()
    assert (settings.cost_limit, settings.time_limit, settings.patience) == (5, 10, 5), "5 minutes are the default"
    places.user("cost_limit = 2\ntime_limit = 20\npatience = 1\n")
    settings = places.load()
    assert (settings.cost_limit, settings.time_limit, settings.patience) == (2, 10, 1)
    assert places.load(cost_limit=9.0).cost_limit == 9, "the user's own word"
    places.project('model = "a:project"\n')
    with pytest.raises(ConfigError, match="a project cannot set 'model'"):
        places.load()


def test_rules_of_all_places_count_together(places: Places) -> None:
    places.user('allow = ["git diff *"]\ndeny = ["rm *"]\n')
    places.project('deny = ["git push *"]\n')
    settings = places.load(allow=["ls *"])
    assert settings.allow == ("git diff *", "ls *")
    assert settings.deny == ("rm *", "git push *")


def test_parts_of_the_policy_go_on_top_of_the_named_one(places: Places) -> None:
    places.user("low_water = 0.5\n")
    assert places.load().context.policy == Policy(low_water=0.5)
    places.project('policy = "paper"\ndescription_share = 0.1\n')
    assert places.load().context.policy == replace(Policy.paper(), description_share=0.1)
    assert places.load(policy="default").context.policy == Policy()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle = 'x'", ["modle", "the settings are: model, budget"]),
        ("budget = 'lots'", ["budget = 'lots'", "80k"]),
        ("budget = 0", ["budget = 0", "at least 1"]),
        ("budget = 80", ["budget = 80", 'did you mean "80k"?']),
        ("budget = '80'", ["budget = '80'", "did you mean 80k?"]),
        ("budget = true", ["budget = True"]),
        ("policy = 'best'", ["policy", "default, paper"]),
        ("low_water = 2", ["low_water = 2"]),
        ("strategy = 7", ["strategy = 7", "cwl"]),
        ("annotate = 'guess'", ["annotate = 'guess'", "it must be one of: model, infer"]),
        ("recall = 'yes'", ["recall", "true or false"]),
        ("cost_limit = -1", ["cost_limit", "above 0"]),
        (f"cost_limit = {'9' * 400}", ["cost_limit", "above 0"]),
        ("tool_classes = {grep = 'huge'}", ["tool_classes", "bulk, artifact, durable"]),
        ("model = ''", ["model"]),
        ("yolo = true", ["yolo", "a project cannot set"]),
        ("allow = ['*']", ["allow", "a project cannot set"]),
        ("deny = 'rm *'", ["deny", "a list of patterns"]),
        ("deny = ['']", ["deny", "not a pattern"]),
        ("= broken", ["not TOML"]),
        (f"budget = {'9' * 5_000}", ["too many digits"]),
        (f"budget = 0x{'f' * 5_000}", ["budget = a number with too many digits"]),
        (f"budget = -{'9' * 4_000}", ["budget = -999", "…"]),
        (f"budget = {'[' * 5_000}", ["nested too deeply"]),
    ],
)
def test_a_bad_setting_is_named_with_its_file(places: Places, text: str, words: list[str]) -> None:
    path = places.project(text)
    with pytest.raises(ConfigError) as raised:
        places.load()
    assert all(word in str(raised.value) for word in [str(path), *words])
    assert len(str(raised.value)) < len(str(path)) + 500


def test_a_byte_order_mark_does_no_harm(places: Places) -> None:
    places.user('\ufeffbudget = "10k"\n')
    assert places.load().budget == "10k"


def test_a_directory_that_cannot_be_looked_into_is_named(places: Places) -> None:
    # Root may look into all, so this one is none for anybody: no file system takes such a name.
    too_long = places.cwd / ("x" * 5_000)
    with pytest.raises(ConfigError, match=f"cannot work in the directory {too_long}: "):
        places.load(cwd=too_long)


@pytest.mark.parametrize("flag", [{"budget": "-3"}, {"cost_limit": 0.0}])
def test_a_bad_flag_is_refused(places: Places, flag: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        places.load(**flag)


def test_the_project_ends_at_the_repositorys_root(places: Places, tmp_path: Path) -> None:
    (tmp_path / ".wane.toml").write_text("")
    assert project_file(places.cwd) is None


def test_the_guide_has_every_key(places: Places) -> None:
    places.user("nonsense = 1")
    with pytest.raises(ConfigError) as refused:
        places.load()
    keys = str(refused.value).partition("the settings are: ")[2].split(", ")
    guide = (Path(__file__).parents[2] / "docs/agent.md").read_text(encoding="utf-8")
    _, _, table = guide.partition("## Settings\n")
    rows = [line.split("|")[1] for line in table.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert sorted(keys) == sorted(re.findall("`(.+?)`", " ".join(rows)))
