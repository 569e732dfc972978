"""Which provider an agent would ask, and how it is pointed at a proxy instead, by what its user has set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wane.core.errors import ConfigError
from wane.proxy.agents.coding_agent import GOOGLE, OPENAI, AgentCommand, Start, around_proxies, openai_base
from wane.proxy.agents.known import (
    ClaudeCode,
    ClaudeInEditor,
    Cline,
    Codex,
    CodexInEditor,
    Copilot,
    GeminiCli,
    KimiCode,
    MistralVibe,
    MistralVibeInEditor,
    OpenCode,
    OtherAgent,
    Pi,
    QwenCode,
    agent_of,
)
from wane.proxy.http.upstream import Upstream
from wane.proxy.settings import ServerTimeouts, UpstreamUrl

PROXY = "http://127.0.0.1:1234"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def write(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))


def command(home: Path, *arguments: str, environ: Mapping[str, str] | None = None, **more: Any) -> AgentCommand:
    variables = {"HOME": str(home), **(environ or {})}
    return AgentCommand("agent", arguments, variables, home.parent / "work", **more)


def start_agent(agent: Any, how: AgentCommand) -> Start:
    upstream = UpstreamUrl.parse(how.upstream or agent.upstream(how))
    start = agent.start(how, PROXY, upstream, how.folder)
    assert isinstance(start, Start)
    return start


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("claude", ClaudeCode),
        ("/usr/local/bin/claude", ClaudeCode),
        ("codex.cmd", Codex),
        ("./pi", Pi),
        ("gemini", GeminiCli),
        ("opencode", OpenCode),
        ("copilot", Copilot),
        ("qwen", QwenCode),
        ("kimi", KimiCode),
        ("vibe", MistralVibe),
        ("vibe-acp", MistralVibeInEditor),
        ("claude-agent-acp", ClaudeInEditor),
        ("codex-acp", CodexInEditor),
        ("cline", Cline),
        ("aider", OtherAgent),
        ("claude-2", OtherAgent),
    ],
)
def test_programs_are_known_by_name(program: str, kind: type) -> None:
    assert isinstance(agent_of(program), kind)


@pytest.mark.parametrize(
    ("upstream", "base"),
    [
        ("https://api.openai.com", "/v1"),
        ("https://api.openai.com/v1", "/v1"),
        ("https://openrouter.ai/api/v1/", "/v1"),
        ("https://api.z.ai/api/coding/paas/v4", "/v4"),
        ("https://chatgpt.com/backend-api/codex", ""),
        ("https://x.test/vertex", ""),
    ],
)
def test_the_base_for_openais_protocols_ends_as_the_upstream_does(upstream: str, base: str) -> None:
    url = UpstreamUrl.parse(upstream)
    assert openai_base(PROXY, url) == PROXY + base
    # So that the proxy asks what the client would have.
    path = f"{base}/responses".encode()
    assert (
        Upstream(url, ServerTimeouts()).target(path).decode() == (url.prefix or "/v1" * (base == "/v1")) + "/responses"
    )


def test_no_proxy_of_the_environment_stands_between() -> None:
    assert around_proxies({"NO_PROXY": "a"}) == {}
    found = around_proxies({"HTTPS_PROXY": "http://p", "NO_PROXY": "corp,localhost"})
    assert found == dict.fromkeys(("no_proxy", "NO_PROXY"), "corp,localhost,127.0.0.1,::1")
    assert around_proxies({"http_proxy": "http://p"})["no_proxy"] == "127.0.0.1,localhost,::1"


# Claude Code


def base_url(url: object) -> dict[str, object]:
    return {"env": {"ANTHROPIC_BASE_URL": url}}


def test_whom_claude_would_ask(home: Path) -> None:
    gateway = {"ANTHROPIC_BASE_URL": "https://gateway.test/a"}
    assert ClaudeCode().upstream(command(home, environ=gateway)) == "https://gateway.test/a"
    for broken in ("{", "[]", {"env": 7}, base_url(7), "\x00"):
        write(home / ".claude" / "settings.json", broken)
        assert ClaudeCode().upstream(command(home)) == "https://api.anthropic.com", "what is none is its own business"
    write(home / "config" / "settings.json", base_url("https://else.test"))
    elsewhere = {**gateway, "CLAUDE_CONFIG_DIR": str(home / "config")}
    assert ClaudeCode().upstream(command(home, environ=elsewhere)) == "https://else.test"


def test_claude_is_told_by_the_environment_and_if_a_file_would_win_by_settings(home: Path) -> None:
    assert start_agent(ClaudeCode(), command(home)) == Start(environ={"ANTHROPIC_BASE_URL": PROXY})
    write(home / ".claude" / "settings.json", base_url("https://user.test"))
    how = command(home, "-p", "Hi", environ={"ANTHROPIC_BASE_URL": "https://environment.test"})
    assert ClaudeCode().upstream(how) == "https://user.test"
    start = start_agent(ClaudeCode(), how)
    assert start.before[0] == "--settings"
    assert json.loads(start.before[1]) == {"env": {"ANTHROPIC_BASE_URL": PROXY}}
    write(how.folder / ".claude" / "settings.local.json", base_url("https://project.test"))
    assert ClaudeCode().upstream(how) == "https://project.test"
    with pytest.raises(ConfigError, match="remove the variable from the file"):
        start_agent(ClaudeCode(), command(home, "--settings", "mine.json"))


@pytest.mark.parametrize("form", ["{inline}", "file.json"])
def test_settings_of_the_users_own_that_point_elsewhere_are_refused(home: Path, form: str) -> None:
    settings = {"env": {"ANTHROPIC_BASE_URL": "https://mine.test"}}
    write(home.parent / "work" / "file.json", settings)
    given = json.dumps(settings) if form == "{inline}" else form
    with pytest.raises(ConfigError, match="give its value as --upstream"):
        start_agent(ClaudeCode(), command(home, f"--settings={given}"))
    assert start_agent(ClaudeCode(), command(home, "--settings", "{}")).before == ()
    assert start_agent(ClaudeCode(), command(home, "--settings", "{broken")).before == ()


def test_claude_elsewhere_than_at_anthropic_cannot_be_run(home: Path) -> None:
    with pytest.raises(ConfigError, match="Amazon Bedrock"):
        start_agent(ClaudeCode(), command(home, environ={"CLAUDE_CODE_USE_BEDROCK": "1"}))
    assert start_agent(ClaudeCode(), command(home, environ={"CLAUDE_CODE_USE_BEDROCK": "0"}))
    write(home / ".claude" / "settings.json", {"env": {"CLAUDE_CODE_USE_VERTEX": "true"}})
    with pytest.raises(ConfigError, match="Vertex"):
        start_agent(ClaudeCode(), command(home, upstream="https://api.anthropic.com"))


def test_claude_with_a_cloud_that_speaks_messages_is_told_by_the_clouds_variable(home: Path) -> None:
    foundry = {"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_BASE_URL": "https://else.test"}
    with pytest.raises(ConfigError, match="set ANTHROPIC_FOUNDRY_BASE_URL, or give --upstream"):
        ClaudeCode().upstream(command(home, environ=foundry))
    foundry["ANTHROPIC_FOUNDRY_BASE_URL"] = "https://mine.test/anthropic"
    assert ClaudeCode().upstream(command(home, environ=foundry)) == "https://mine.test/anthropic"
    assert start_agent(ClaudeCode(), command(home, environ=foundry)).environ == {"ANTHROPIC_FOUNDRY_BASE_URL": PROXY}
    mantle = {"CLAUDE_CODE_USE_MANTLE": "1", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL": "https://mantle.test/anthropic"}
    with pytest.raises(ConfigError, match="set AWS_BEARER_TOKEN_BEDROCK"):
        ClaudeCode().upstream(command(home, environ=mantle))
    write(home / ".claude" / "settings.json", {"env": {"AWS_BEARER_TOKEN_BEDROCK": "key"}})
    start = start_agent(ClaudeCode(), command(home, environ=mantle))
    assert start == Start(environ={"ANTHROPIC_BEDROCK_MANTLE_BASE_URL": PROXY})
    write(home / ".claude" / "settings.json", {"env": {**mantle, "AWS_BEARER_TOKEN_BEDROCK": "key"}})
    start = start_agent(ClaudeCode(), command(home))
    assert json.loads(start.before[1]) == {"env": {"ANTHROPIC_BEDROCK_MANTLE_BASE_URL": PROXY}}


def test_claude_in_an_editor_has_no_option_that_would_win_over_a_file(home: Path) -> None:
    assert start_agent(ClaudeInEditor(), command(home)) == Start(environ={"ANTHROPIC_BASE_URL": PROXY})
    write(home / ".claude" / "settings.json", base_url("https://user.test"))
    with pytest.raises(ConfigError, match="claude-agent-acp cannot be run with a proxy: a settings file sets"):
        start_agent(ClaudeInEditor(), command(home))


# Codex


def test_codex_in_an_editor_is_told_by_a_variable_and_by_options(home: Path) -> None:
    write(home / ".codex" / "auth.json", {"auth_mode": "chatgpt"})
    start = start_agent(CodexInEditor(), command(home, environ={"CODEX_CONFIG": '{"model": "gpt-5.5"}'}))
    assert start.before == start_agent(Codex(), command(home)).before
    assert json.loads(start.environ["CODEX_CONFIG"]) == {
        "model": "gpt-5.5",
        "openai_base_url": PROXY,
        "features.enable_request_compression": False,
    }


def test_codex_is_told_by_an_option(home: Path) -> None:
    assert Codex().upstream(command(home)) == "https://api.openai.com/v1"
    assert start_agent(Codex(), command(home, "exec", "Hi")).before == ("-c", f'openai_base_url="{PROXY}/v1"')


@pytest.mark.parametrize(
    ("login", "chatgpt"),
    [
        ({"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {"access_token": "x"}}, True),
        ({"OPENAI_API_KEY": None, "tokens": {"access_token": "x"}}, True),
        ({"auth_mode": "apikey", "OPENAI_API_KEY": "sk"}, False),
        ({"OPENAI_API_KEY": "sk", "tokens": None}, False),
        ({}, False),
    ],
)
def test_a_login_of_codex_says_whom_it_asks(home: Path, login: dict[str, Any], chatgpt: bool) -> None:
    write(home / ".codex" / "auth.json", login)
    upstream = Codex().upstream(command(home))
    assert upstream == ("https://chatgpt.com/backend-api/codex" if chatgpt else "https://api.openai.com/v1")
    before = start_agent(Codex(), command(home)).before
    assert before[1] == f'openai_base_url="{PROXY}{"" if chatgpt else "/v1"}"'
    assert ("features.enable_request_compression=false" in before) is chatgpt
    assert Codex().upstream(command(home, environ={"CODEX_API_KEY": "sk"})) == "https://api.openai.com/v1"


CONFIG = """
model_provider = "corp"
profile = "none"
openai_base_url = "https://mine.test/v1"
[model_providers.corp]
base_url = "https://corp.test/openai/v1"
[model_providers.bare]
name = "Bare"
[profiles.house]
model_provider = "openai"
"""


def test_codex_keeps_the_provider_of_its_configuration(home: Path) -> None:
    write(home / ".codex" / "config.toml", CONFIG)
    assert Codex().upstream(command(home)) == "https://corp.test/openai/v1"
    assert start_agent(Codex(), command(home)).before == ("-c", f'model_providers.corp.base_url="{PROXY}/v1"')
    for how in (command(home, "-p", "house"), command(home, "exec", "-c", 'model_provider="openai"', "Hi")):
        assert Codex().upstream(how) == "https://mine.test/v1"
        assert start_agent(Codex(), how).before[1] == f'openai_base_url="{PROXY}/v1"'
    bare = command(home, "--config=model_provider=bare")
    with pytest.raises(ConfigError, match="give it as --upstream"):
        Codex().upstream(bare)
    told = command(home, "--config=model_provider=bare", upstream="https://bare.test/v2")
    assert start_agent(Codex(), told).before[1] == f'model_providers.bare.base_url="{PROXY}/v2"'


def test_codex_that_would_ask_elsewhere_cannot_be_run(home: Path) -> None:
    for arguments in (("--oss",), ("-c", "model_provider=ollama"), ("exec", "-c", "openai_base_url=http://x/v1", "Hi")):
        with pytest.raises(ConfigError, match=r"no setting changes|-c openai_base_url is given"):
            start_agent(Codex(), command(home, *arguments, upstream="http://127.0.0.1:1"))


# pi


def extension(start: Start) -> str:
    assert start.before[0] == "-e"
    return Path(start.before[1]).read_text()


@pytest.mark.parametrize(
    ("arguments", "environ", "provider", "upstream", "base"),
    [
        ((), {}, "anthropic", "https://api.anthropic.com", ""),
        (("--model", "openai/gpt-5.5:high"), {}, "openai", "https://api.openai.com/v1", "/v1"),
        (("--models=zai/glm,openai/x",), {}, "zai", "https://api.z.ai/api/coding/paas/v4", "/v4"),
        (("--provider", "groq", "--model", "x/y"), {}, "groq", "https://api.groq.com/openai/v1", "/v1"),
        (("--model", "sonnet"), {"OPENAI_API_KEY": "sk"}, "openai", "https://api.openai.com/v1", "/v1"),
        (("--model", "meta-llama/x"), {"ANTHROPIC_API_KEY": "sk"}, "anthropic", "https://api.anthropic.com", ""),
    ],
)
def test_pi_gets_an_extension(
    home: Path, arguments: tuple[str, ...], environ: dict[str, str], provider: str, upstream: str, base: str
) -> None:
    how = command(home, *arguments, environ=environ)
    assert Pi().upstream(how) == upstream
    text = extension(start_agent(Pi(), how))
    assert f'pi.registerProvider("{provider}", {{"baseUrl": "{PROXY}{base}"}})' in text


def test_pi_keeps_the_providers_of_its_configuration(home: Path) -> None:
    mine = {"baseUrl": "https://mine.test/v1", "api": "openai-completions"}
    write(home / ".pi" / "agent" / "models.json", {"providers": {"mine": mine, "odd": {"baseUrl": "https://odd.test"}}})
    write(home / ".pi" / "agent" / "settings.json", {"defaultProvider": "mine"})
    assert Pi().upstream(command(home)) == "https://mine.test/v1"
    assert f'"mine", {{"baseUrl": "{PROXY}/v1"}}' in extension(start_agent(Pi(), command(home)))
    odd = command(home, "--model", "odd/x")
    assert Pi().upstream(odd) == "https://odd.test"
    with pytest.raises(ConfigError, match="give --api"):
        start_agent(Pi(), odd)
    assert f'"odd", {{"baseUrl": "{PROXY}"}}' in extension(
        start_agent(Pi(), command(home, "--model", "odd/x", api="anthropic"))
    )
    write(home.parent / "work" / ".pi" / "settings.json", {"defaultProvider": "google"})
    with pytest.raises(ConfigError, match="'google' speaks Gemini's protocol"):
        Pi().upstream(command(home))


def test_what_pi_does_besides_needs_no_extension(home: Path) -> None:
    assert start_agent(Pi(), command(home, "update", "--models")) == Start()


# Gemini CLI


@pytest.mark.parametrize(
    ("file", "choice", "environ", "words"),
    [
        *(
            (f"{folder}/settings.json", choice, {"GOOGLE_GENAI_USE_GCA": "true"}, words)
            for folder in ("home/.gemini", "work/.gemini", "etc")
            for choice, words in (
                ("gemini-api-key", ""),
                ("oauth-personal", "it uses a Google login, whose API Wane does not support; choose Gemini's"),
                ("vertex-ai", "it uses Vertex AI, whose API"),
                ("new", "it uses new, whose API"),
            )
        ),
        ("etc/system-defaults.json", "gemini-api-key", {}, ""),
        # Without a choice it would take the address for a gateway of its own kind, and refuse to start.
        ("none", "", {}, "start gemini once by itself and choose Gemini's API key"),
        ("none", "", {"GOOGLE_GENAI_USE_GCA": "true"}, "it uses a Google login, whose API Wane does not support"),
        ("none", "", {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "it uses Vertex AI, whose API Wane does not support"),
    ],
)
def test_gemini_is_told_by_the_environment_if_it_uses_a_key(
    home: Path, file: str, choice: str, environ: dict[str, str], words: str
) -> None:
    system = {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(home.parent / "etc" / "settings.json")}
    how = command(home, environ={**system, **environ})
    gateway = command(home, environ={"GOOGLE_GEMINI_BASE_URL": "https://gateway.test/a"})
    assert [GeminiCli().upstream(each) for each in (how, gateway)] == [GOOGLE, "https://gateway.test/a"]
    write(home.parent / file, {"security": {"auth": {"selectedType": choice}}})
    if words:
        with pytest.raises(ConfigError, match=words):
            start_agent(GeminiCli(), how)
    else:
        assert start_agent(GeminiCli(), how) == Start(environ={"GOOGLE_GEMINI_BASE_URL": PROXY})


# OpenCode


def opencode_settings(start: Start) -> Any:
    return json.loads(start.environ["OPENCODE_CONFIG_CONTENT"])


@pytest.mark.parametrize(
    ("model", "upstream"),
    [
        ("anthropic/claude-sonnet-5-5", "https://api.anthropic.com/v1"),
        ("openai/gpt-6.1-sol", "https://api.openai.com/v1"),
    ],
)
def test_opencode_is_told_by_settings_in_its_environment(home: Path, model: str, upstream: str) -> None:
    how = command(home, "run", "-m", model, "Hi")
    assert OpenCode().upstream(how) == upstream
    provider = model.partition("/")[0]
    base = {"provider": {provider: {"options": {"baseURL": f"{PROXY}/v1"}}}}
    assert opencode_settings(start_agent(OpenCode(), how)) == base
    mine = {"share": "disabled", "provider": {provider: {"options": {"timeout": 7}}, "other": {}}}
    how = command(home, "-m", model, environ={"OPENCODE_CONFIG_CONTENT": json.dumps(mine)})
    mine["provider"][provider]["options"]["baseURL"] = f"{PROXY}/v1"  # type: ignore[index]
    assert opencode_settings(start_agent(OpenCode(), how)) == mine


def test_opencode_keeps_the_provider_of_its_files(home: Path) -> None:
    mine = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": "https://mine.test/api/v4"}}
    comments = f'{{ // the user\'s\n"model": "mine/x", /* a // b */ "provider": {{"mine": {json.dumps(mine)},}},}}'
    write(home / ".config" / "opencode" / "opencode.jsonc", comments)
    assert OpenCode().upstream(command(home)) == "https://mine.test/api/v4"
    options = {"baseURL": f"{PROXY}/v4"}
    assert opencode_settings(start_agent(OpenCode(), command(home)))["provider"]["mine"]["options"] == options
    # A project's settings win, wherever in the project the user stands.
    write(home.parent / "opencode.json", {"provider": {"mine": {"options": {"baseURL": "https://project.test/v1"}}}})
    assert OpenCode().upstream(command(home)) == "https://project.test/v1"
    write(home / "named.json", {"model": "anthropic/x"})
    how = command(home, environ={"OPENCODE_CONFIG": str(home / "named.json")})
    assert OpenCode().upstream(how) == "https://api.anthropic.com/v1"


def test_opencode_that_would_ask_elsewhere_cannot_be_run(home: Path) -> None:
    with pytest.raises(ConfigError, match="give --model PROVIDER/MODEL"):
        OpenCode().upstream(command(home, "run", "Hi"))
    with pytest.raises(ConfigError, match="its provider 'opencode' is unknown; if it speaks OpenAI's or"):
        OpenCode().upstream(command(home, "-m", "opencode/big-pickle"))
    write(home.parent / "work" / "opencode.json", {"provider": {"g": {"npm": "@ai-sdk/google"}}})
    with pytest.raises(ConfigError, match="'g' speaks by @ai-sdk/google"):
        start_agent(OpenCode(), command(home, "-m", "g/x", upstream="https://g.test"))
    write(home / ".local" / "share" / "opencode" / "auth.json", {"openai": {"type": "oauth"}})
    with pytest.raises(ConfigError, match="login with ChatGPT"):
        start_agent(OpenCode(), command(home, "-m", "openai/gpt-6.1-sol"))
    assert start_agent(OpenCode(), command(home, "-m", "anthropic/x")).environ


# Copilot CLI


@pytest.mark.parametrize(("kind", "base"), [(None, f"{PROXY}/v1"), ("openai", f"{PROXY}/v1"), ("anthropic", PROXY)])
def test_copilot_is_told_by_the_variable_of_its_provider(home: Path, kind: str | None, base: str) -> None:
    upstream = "https://api.anthropic.com" if kind == "anthropic" else "https://mine.test/v1"
    environ = {"COPILOT_PROVIDER_BASE_URL": upstream, **({"COPILOT_PROVIDER_TYPE": kind} if kind else {})}
    how = command(home, "-p", "Hi", environ=environ)
    assert Copilot().upstream(how) == upstream
    assert start_agent(Copilot(), how) == Start(environ={"COPILOT_PROVIDER_BASE_URL": base})


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "it asks GitHub, whose API Wane does not support, unless COPILOT_PROVIDER_BASE_URL names"),
        ({"COPILOT_PROVIDER_TYPE": "azure"}, "COPILOT_PROVIDER_TYPE is azure"),
        ({"COPILOT_PROVIDER_TRANSPORT": "websockets"}, "asks for web sockets"),
    ],
)
def test_copilot_that_would_ask_otherwise_cannot_be_run(home: Path, environ: dict[str, str], words: str) -> None:
    base = {"COPILOT_PROVIDER_BASE_URL": "https://mine.test/v1"} if environ else {}
    with pytest.raises(ConfigError, match=words):
        start_agent(Copilot(), command(home, environ={**environ, **base}))


# Qwen Code


@pytest.mark.parametrize(
    ("arguments", "variable", "upstream", "base"),
    [
        (("--auth-type", "openai"), "OPENAI_BASE_URL", "https://mine.test/v1", f"{PROXY}/v1"),
        (("--auth-type=openai-responses",), "OPENAI_BASE_URL", "https://mine.test/v1", f"{PROXY}/v1"),
        (("--auth-type", "anthropic"), "ANTHROPIC_BASE_URL", "https://mine.test", PROXY),
        ((), "OPENAI_BASE_URL", "https://mine.test/v4", f"{PROXY}/v4"),
    ],
)
def test_qwen_is_told_by_a_variable(
    home: Path, arguments: tuple[str, ...], variable: str, upstream: str, base: str
) -> None:
    how = command(home, *arguments, environ={"OPENAI_API_KEY": "sk", variable: upstream})
    assert QwenCode().upstream(how) == upstream
    assert start_agent(QwenCode(), how) == Start(environ={variable: base})


def test_qwen_keeps_the_provider_of_its_settings_unless_nothing_overrides_it(home: Path) -> None:
    auth = {"selectedType": "openai", "baseUrl": "https://mine.test/v1"}
    write(home / ".qwen" / "settings.json", {"security": {"auth": auth}})
    assert QwenCode().upstream(command(home)) == "https://mine.test/v1"
    assert start_agent(QwenCode(), command(home)).environ == {"OPENAI_BASE_URL": f"{PROXY}/v1"}
    with pytest.raises(ConfigError, match="--openai-base-url is given"):
        start_agent(QwenCode(), command(home, "--openai-base-url", "https://x.test/v1"))
    models = {"openai": [{"id": "m", "baseUrl": "https://mine.test/v1", "envKey": "KEY"}]}
    write(home.parent / "work" / ".qwen" / "settings.json", {"modelProviders": models})
    with pytest.raises(ConfigError, match=r"modelProviders\.openai of its settings holds addresses"):
        start_agent(QwenCode(), command(home))


def test_qwen_that_would_ask_elsewhere_cannot_be_run(home: Path) -> None:
    for arguments, words in (
        ((), "no login is chosen"),
        (("--auth-type", "gemini"), "it uses gemini"),
        (("--auth-type", "anthropic"), "set ANTHROPIC_BASE_URL, or give it as --upstream"),
    ):
        with pytest.raises(ConfigError, match=words):
            start_agent(QwenCode(), command(home, *arguments))


# Kimi Code


KIMI = """
default_model = "m"
[providers.p]
type = "openai"
[providers.c]
type = "anthropic"
[providers.fixed]
type = "openai"
base_url = "https://mine.test/v1"
[models.m]
provider = "p"
[models.c]
provider = "c"
[models.fixed]
provider = "fixed"
"""


def test_kimi_is_told_by_a_variable_unless_its_file_holds_the_address(home: Path) -> None:
    write(home / ".kimi-code" / "config.toml", KIMI)
    how = command(home, environ={"OPENAI_BASE_URL": "https://mine.test/v1"})
    assert [KimiCode().upstream(each) for each in (how, command(home))] == ["https://mine.test/v1", OPENAI]
    assert start_agent(KimiCode(), how) == Start(environ={"OPENAI_BASE_URL": f"{PROXY}/v1"})
    assert start_agent(KimiCode(), command(home, "-m", "c")) == Start(environ={"ANTHROPIC_BASE_URL": PROXY})
    with pytest.raises(ConfigError, match="holds base_url of 'fixed', which no variable or option overrides"):
        start_agent(KimiCode(), command(home, "--model=fixed", upstream="https://x.test/v1"))
    with pytest.raises(ConfigError, match="its model 'new' is of type unknown"):
        start_agent(KimiCode(), command(home, "-m", "new"))


VIBE = """
active_model = "mine"
[[providers]]
name = "p"
api_base = "https://mine.test/v1"
api_key_env_var = "MY_KEY"
[[providers]]
name = "claude"
api_base = "https://api.anthropic.com"
api_style = "anthropic"
[[models]]
name = "m"
provider = "p"
alias = "mine"
[[models]]
name = "c"
provider = "claude"
[[models]]
name = "x"
provider = "nowhere"
"""


def test_vibe_is_told_by_a_variable_with_its_provider(home: Path) -> None:
    how = command(home)
    assert MistralVibe().upstream(how) == "https://api.mistral.ai/v1"
    (provider,) = json.loads(start_agent(MistralVibe(), how).environ["VIBE_PROVIDERS"])
    assert (provider["name"], provider["backend"], provider["api_base"]) == ("mistral", "mistral", f"{PROXY}/v1")
    write(home / ".vibe" / "config.toml", VIBE)
    assert MistralVibe().upstream(how) == "https://mine.test/v1"
    (provider,) = json.loads(start_agent(MistralVibe(), how).environ["VIBE_PROVIDERS"])
    assert provider == {"name": "p", "api_base": f"{PROXY}/v1", "api_key_env_var": "MY_KEY"}
    # What the environment holds already wins over files, and stays.
    given = [{"name": "q"}, {"name": "p", "api_base": "https://other.test/v1"}]
    how = command(home, environ={"VIBE_PROVIDERS": json.dumps(given)})
    assert MistralVibe().upstream(how) == "https://other.test/v1"
    assert json.loads(start_agent(MistralVibe(), how).environ["VIBE_PROVIDERS"]) == [{"name": "q"}, provider]
    with pytest.raises(ConfigError, match="'claude' has the api_style anthropic; Wane knows openai"):
        start_agent(MistralVibe(), command(home, environ={"VIBE_ACTIVE_MODEL": "c"}))
    with pytest.raises(ConfigError, match="does not describe the provider 'nowhere' of its model 'x'"):
        start_agent(MistralVibe(), command(home, environ={"VIBE_ACTIVE_MODEL": "x"}))


def test_cline_is_refused_with_the_way_that_works(home: Path) -> None:
    with pytest.raises(ConfigError, match="cline auth PROVIDER --baseurl"):
        start_agent(Cline(), command(home))
    with pytest.raises(ConfigError, match="--upstream does not help"):
        start_agent(Cline(), command(home, upstream="https://x.test"))


def test_aider_is_refused_with_the_reason_unless_its_protocol_is_given(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"uses no tools .* so there is nothing to evict; give --api openai"):
        start_agent(agent_of("aider"), command(home))
    start = start_agent(agent_of("aider"), command(home, api="openai"))
    assert start.environ == {"OPENAI_BASE_URL": f"{PROXY}/v1", "OPENAI_API_BASE": f"{PROXY}/v1"}
    assert start.note.endswith("so there is nothing to evict; every request passes unchanged")
    start = start_agent(agent_of("aider"), command(home, upstream="https://api.anthropic.com"))
    assert start.environ == {"ANTHROPIC_BASE_URL": PROXY, "ANTHROPIC_API_BASE": PROXY}
    with pytest.raises(ConfigError, match="--api anthropic, openai or gemini"):
        start_agent(agent_of("aider"), command(home, upstream="https://x.test"))


@pytest.mark.parametrize("provider", ["openai-codex", "google", "mistral", "amazon-bedrock"])
def test_a_provider_of_pi_with_a_protocol_of_its_own_is_refused_with_the_reason(home: Path, provider: str) -> None:
    with pytest.raises(ConfigError, match=f"'{provider}' speaks .* protocol, and through the proxy pi speaks"):
        start_agent(Pi(), command(home, "--provider", provider))


def test_copilot_by_responses_is_run_with_a_warning(home: Path) -> None:
    environ = {"COPILOT_PROVIDER_BASE_URL": "https://x.test/v1", "COPILOT_PROVIDER_WIRE_API": "responses"}
    assert "COPILOT_PROVIDER_WIRE_API=completions" in start_agent(Copilot(), command(home, environ=environ)).note
    environ["COPILOT_PROVIDER_WIRE_API"] = "completions"
    assert not start_agent(Copilot(), command(home, environ=environ)).note


# Others


def test_others_are_told_by_the_usual_variables(home: Path) -> None:
    start = start_agent(OtherAgent("goose"), command(home, api="openai"))
    assert start.environ == {"OPENAI_BASE_URL": f"{PROXY}/v1", "OPENAI_API_BASE": f"{PROXY}/v1"}
    assert "does not know goose" in start.note
    start = start_agent(OtherAgent("x"), command(home, upstream="https://api.anthropic.com"))
    assert start.environ == {"ANTHROPIC_BASE_URL": PROXY, "ANTHROPIC_API_BASE": PROXY}
    start = start_agent(OtherAgent("x"), command(home, upstream="https://generativelanguage.googleapis.com"))
    assert start.environ == {"GOOGLE_GEMINI_BASE_URL": PROXY}
    assert start.note.endswith("GOOGLE_GEMINI_BASE_URL is set, but it may ignore it")
    how = command(home, api="openai", environ={"OPENAI_API_BASE": "https://mine.test/v1"})
    assert OtherAgent("x").upstream(how) == "https://mine.test/v1"
    for unclear in (command(home), command(home, upstream="https://x.test")):
        with pytest.raises(ConfigError, match="--api anthropic, openai or gemini"):
            start_agent(OtherAgent("x"), unclear)
