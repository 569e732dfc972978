from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from wane.agent.config import Settings, load_settings, project_file, user_file
from wane.agent.options import AgentOptions
from wane.conversation import ContextSettings
from wane.core import Policy
from wane.core.errors import ConfigError


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A project below a repository's root, and an environment whose config directory is empty."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    (tmp_path / "config").mkdir()
    return tmp_path / "repo" / "sub", {"WANE_CONFIG_DIR": str(tmp_path / "config")}


def test_defaults(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    assert load_settings(AgentOptions(cwd=cwd), environ) == Settings()


def test_flags_before_project_before_user_before_defaults(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    user_file(environ).write_text('model = "a:user"\nbudget = "10k"\nrecall = false\nyolo = true\n')
    (cwd.parent / ".wane.toml").write_text('model = "a:project"\nbudget = 20000\npolicy = "paper"\n')
    settings = load_settings(AgentOptions(cwd=cwd, model="a:flag"), environ)
    context = ContextSettings(policy=Policy.paper(), recall=False)
    assert settings == Settings(model="a:flag", budget=20_000, context=context, yolo=True)


def test_rules_of_all_places_count_together(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    user_file(environ).write_text('allow = ["git diff *"]\ndeny = ["rm *"]\n')
    (cwd / ".wane.toml").write_text('deny = ["git push *"]\n')
    settings = load_settings(AgentOptions(cwd=cwd, allow=["ls *"]), environ)
    assert settings.allow == ("git diff *", "ls *")
    assert settings.deny == ("rm *", "git push *")


def test_parts_of_the_policy_go_on_top_of_the_named_one(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    user_file(environ).write_text("low_water = 0.5\n")
    assert load_settings(AgentOptions(cwd=cwd), environ).context.policy == Policy(low_water=0.5)
    (cwd / ".wane.toml").write_text('policy = "paper"\ndescription_share = 0.1\n')
    assert load_settings(AgentOptions(cwd=cwd), environ).context.policy == replace(
        Policy.paper(), description_share=0.1
    )
    assert load_settings(AgentOptions(cwd=cwd, policy="default"), environ).context.policy == Policy()


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
def test_a_bad_setting_is_named_with_its_file(places: tuple[Path, dict[str, str]], text: str, words: list[str]) -> None:
    cwd, environ = places
    path = cwd / ".wane.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings(AgentOptions(cwd=cwd), environ)
    assert all(word in str(raised.value) for word in [str(path), *words])
    assert len(str(raised.value)) < len(str(path)) + 500


def test_a_byte_order_mark_does_no_harm(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    user_file(environ).write_text('\ufeffbudget = "10k"\n', encoding="utf-8")
    assert load_settings(AgentOptions(cwd=cwd), environ).budget == "10k"


def test_a_directory_that_cannot_be_looked_into_is_named(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    # Root may look into all, so this one is none for anybody: no file system takes such a name.
    too_long = cwd / ("x" * 5_000)
    with pytest.raises(ConfigError, match=f"cannot work in the directory {too_long}: "):
        load_settings(AgentOptions(cwd=too_long), environ)


def test_a_bad_flag_is_refused(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    for options in (AgentOptions(cwd=cwd, budget="-3"), AgentOptions(cwd=cwd, cost_limit=0.0)):
        with pytest.raises(ConfigError):
            load_settings(options, environ)


def test_the_project_ends_at_the_repositorys_root(places: tuple[Path, dict[str, str]]) -> None:
    cwd, _ = places
    (cwd.parent.parent / ".wane.toml").write_text("")
    assert project_file(cwd) is None


def test_the_guide_has_every_key(places: tuple[Path, dict[str, str]]) -> None:
    cwd, environ = places
    Path(environ["WANE_CONFIG_DIR"], "config.toml").write_text("nonsense = 1")
    with pytest.raises(ConfigError) as refused:
        load_settings(AgentOptions(cwd=cwd), environ)
    keys = str(refused.value).partition("the settings are: ")[2].split(", ")
    guide = (Path(__file__).parents[2] / "docs/agent.md").read_text(encoding="utf-8")
    _, _, table = guide.partition("## Settings\n")
    rows = [line.split("|")[1] for line in table.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert sorted(keys) == sorted(re.findall("`(.+?)`", " ".join(rows)))
