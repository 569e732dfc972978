"""The coding agents that Wane knows; it starts any other agent with the usual variables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final

from wane.core.errors import ConfigError
from wane.formats.fields import objects_in
from wane.proxy.agents.coding_agent import (
    ANTHROPIC,
    GOOGLE,
    OPENAI,
    Agent,
    AgentCommand,
    Api,
    Start,
    cannot,
    openai_base,
    parse_jsonc,
    parse_settings,
    read_json,
    read_jsonc,
    read_toml,
    table,
    text,
)
from wane.proxy.settings import UpstreamUrl

_CLAUDE_VARIABLE: Final = "ANTHROPIC_BASE_URL"
_CLAUDE_ELSEWHERE: Final = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock by invoke; with a Bedrock API key, set CLAUDE_CODE_USE_MANTLE instead",
    "CLAUDE_CODE_USE_VERTEX": (
        "Google Vertex AI by rawPredict; where you can, set CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD instead"
    ),
}
_CLAUDE_CLOUDS: Final = {
    "CLAUDE_CODE_USE_FOUNDRY": ("ANTHROPIC_FOUNDRY_BASE_URL", ()),
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": (
        "ANTHROPIC_AWS_BASE_URL",
        ("ANTHROPIC_AWS_API_KEY", "CLAUDE_CODE_SKIP_ANTHROPIC_AWS_AUTH"),
    ),
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": ("ANTHROPIC_GOOGLE_CLOUD_BASE_URL", ()),
    "CLAUDE_CODE_USE_MANTLE": (
        "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
        ("AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_SKIP_MANTLE_AUTH"),
    ),
}
"""Clouds that speak Anthropic's Messages: the variable with their base URL, and those with which nothing is signed."""


class ClaudeCode(Agent):
    """Claude Code, with a login or a key. A variable points it at the proxy, and settings files can override that.

    With a cloud that speaks Anthropic's Messages it is a variable of that cloud's (2.1.332).
    """

    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the settings files or the environment; Anthropic by default."""
        variable = self._variable(command)
        base = self._setting(command, variable)
        if not base and variable != _CLAUDE_VARIABLE:
            raise cannot(self.program, f"the address of its cloud is unknown; set {variable}, or give --upstream")
        return base or ANTHROPIC

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment and, if a settings file overrides that, settings that override the file."""
        for switch, service in _CLAUDE_ELSEWHERE.items():
            if self._is_on(command, switch):
                raise cannot(self.program, f"{switch} makes it use an API that Wane does not support, {service}")
        variable = self._variable(command)
        environ = {variable: proxy}
        settings = command.option("--settings")
        if settings is not None:
            # JSON, or the path of a JSON file.
            inline = settings.lstrip().startswith("{")
            read = parse_settings(settings, json.loads) if inline else read_json(command.folder / settings)
            if text(table(read, "env"), variable):
                what = f"its --settings sets {variable}; remove it, and give its value as --upstream"
                raise cannot(self.program, what)
        if self._set_by_file(command, variable) is None:
            return Start(environ=environ)
        if settings is not None:
            raise cannot(
                self.program,
                f"a settings file sets {variable}, which only --settings overrides, and you give --settings"
                " yourself; remove the variable from the file, and give its value as --upstream",
            )
        return Start(("--settings", json.dumps({"env": environ})), environ)

    def _variable(self, command: AgentCommand) -> str:
        """Return the variable with the address of its provider."""
        for switch, (variable, unsigned) in _CLAUDE_CLOUDS.items():
            if not self._is_on(command, switch):
                continue
            if unsigned and not any(self._setting(command, name) for name in unsigned):
                what = f"it signs requests for {switch}, and a signature covers host and body; set {unsigned[0]}"
                raise cannot(self.program, what)
            return variable
        return _CLAUDE_VARIABLE

    def _is_on(self, command: AgentCommand, switch: str) -> bool:
        return self._setting(command, switch).strip().lower() not in ("", "0", "false", "no", "off")

    def _setting(self, command: AgentCommand, variable: str) -> str:
        """Return a variable by the settings files, or else by the environment; empty if neither sets it."""
        return self._set_by_file(command, variable) or command.environ.get(variable, "")

    def _set_by_file(self, command: AgentCommand, variable: str) -> str | None:
        """Return the value of a variable in the settings files, of which the first one wins."""
        for path in (
            command.folder / ".claude" / "settings.local.json",
            command.folder / ".claude" / "settings.json",
            command.directory("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
        ):
            if value := text(table(read_json(path), "env"), variable):
                return value
        return None


class ClaudeInEditor(ClaudeCode):
    """Claude Code as editors run it, over the Agent Client Protocol: the same by the same variable, without options."""

    program = "claude-agent-acp"
    install = "npm install -g @agentclientprotocol/claude-agent-acp"

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return the environment."""
        start = ClaudeCode.start(self, command, proxy, upstream, private)
        if start.before:
            what = f"a settings file sets {next(iter(start.environ))}, which no option of {self.program} overrides"
            raise cannot(self.program, f"{what}; write the address of a wane proxy there")
        return start


_CHATGPT: Final = "https://chatgpt.com/backend-api/codex"
_CODEX_BASE: Final = "openai_base_url"


class Codex(Agent):
    """Codex, with a ChatGPT login, a key, or a provider from its configuration.

    Settings in `-c` point it at the proxy, because no environment variable sets its base URL.
    """

    program = "codex"
    install = "npm install -g @openai/codex"

    def upstream(self, command: AgentCommand) -> str:
        """Return the configured provider, or else ChatGPT if the user is logged in there, or else OpenAI."""
        provider, config = self._provider(command), self._config(command)
        if provider != "openai":
            base = text(table(config, "model_providers", provider), "base_url")
            if base is None:
                raise cannot("codex", f"the address of its provider {provider!r} is unknown; give it as --upstream")
            return base
        return text(config, _CODEX_BASE) or (_CHATGPT if self._is_chatgpt(command) else OPENAI)

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the settings that point its provider at the proxy."""
        provider = self._provider(command)
        key = _CODEX_BASE if provider == "openai" else f"model_providers.{provider}.base_url"
        if key in self._overrides(command):
            raise cannot("codex", f"-c {key} is given; remove it, and give its value as --upstream")
        # A JSON string is a TOML string too.
        before = ["-c", f"{key}={json.dumps(openai_base(proxy, upstream))}"]
        if provider == "openai" and self._is_chatgpt(command):
            # Compressed requests could not be managed.
            before += ["-c", "features.enable_request_compression=false"]
        return Start(tuple(before))

    def _provider(self, command: AgentCommand) -> str:
        if "--oss" in command.arguments:
            raise cannot("codex", "--oss makes it use a local server, whose address no setting changes")
        config = self._config(command)
        profile = command.option("-p", "--profile") or text(config, "profile") or ""
        provider = (
            self._overrides(command).get("model_provider")
            or text(table(config, "profiles", profile), "model_provider")
            or text(config, "model_provider")
            or "openai"
        )
        built_in = ("oss", "ollama", "lmstudio", "amazon-bedrock")
        if provider in built_in and not table(config, "model_providers", provider):
            raise cannot("codex", f"no setting changes the address of its provider {provider!r}")
        return provider

    def _overrides(self, command: AgentCommand) -> dict[str, str]:
        """Return the settings that the command line gives as `-c name=value`; the last one of a name counts."""
        parts = [override.partition("=") for override in command.options("-c", "--config")]
        return {name.strip(): value.strip().strip("\"'") for name, _, value in parts}

    def _config(self, command: AgentCommand) -> dict[str, Any]:
        return read_toml(command.directory("CODEX_HOME", ".codex") / "config.toml")

    def _is_chatgpt(self, command: AgentCommand) -> bool:
        """Whether the user is logged in with ChatGPT, a different provider than OpenAI's API."""
        if command.environ.get("CODEX_API_KEY"):
            return False
        login = read_json(command.directory("CODEX_HOME", ".codex") / "auth.json")
        if mode := text(login, "auth_mode"):
            return mode.lower().startswith("chatgpt")
        return not login.get("OPENAI_API_KEY") and bool(login.get("tokens"))


_CODEX_VARIABLE: Final = "CODEX_CONFIG"


class CodexInEditor(Codex):
    """Codex as editors run it, over the Agent Client Protocol.

    A variable with settings as JSON points it at the proxy (`@agentclientprotocol/codex-acp` 2.6.0), or options do as
    for Codex (`@zed-industries/codex-acp` 0.16.0): each takes no notice of the other's.
    """

    program = "codex-acp"
    install = "npm install -g @agentclientprotocol/codex-acp"

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return both, the settings on top of those that the environment holds."""
        start = Codex.start(self, command, proxy, upstream, private)
        settings = parse_settings(command.environ.get(_CODEX_VARIABLE, ""), json.loads)
        for setting in start.before[1::2]:
            name, _, value = setting.partition("=")
            settings[name] = json.loads(value)
        return Start(start.before, {_CODEX_VARIABLE: json.dumps(settings)})


_GEMINI_VARIABLE: Final = "GOOGLE_GEMINI_BASE_URL"
"""The variable with the base URL of Gemini's API, which Google's SDK reads too."""

_GEMINI_SYSTEM_FILES: Final = {
    "darwin": "/Library/Application Support/GeminiCli/settings.json",
    "win32": "C:\\ProgramData\\gemini-cli\\settings.json",
}
_GEMINI_ELSEWHERE: Final = {"GOOGLE_GENAI_USE_GCA": "a Google login", "GOOGLE_GENAI_USE_VERTEXAI": "Vertex AI"}
_GEMINI_CHOICES: Final = {"oauth-personal": "a Google login", "vertex-ai": "Vertex AI", "cloud-shell": "Cloud Shell"}


class GeminiCli(Agent):
    """Gemini CLI. A variable points it at the proxy, which it reads only if it uses a key of Gemini's API.

    With this variable and no login chosen in its settings, it takes the address for a gateway of its own kind and
    refuses to start. A run cannot choose for the user: there is no option for that, and besides the user's own settings
    Gemini CLI (0.61.0) reads only files of root in directories of root.
    """

    program = "gemini"
    install = "npm install -g @google/gemini-cli"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the environment; Google by default."""
        return command.environ.get(_GEMINI_VARIABLE) or GOOGLE

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment."""
        chosen = self._chosen_login(command)
        if chosen == "gemini-api-key":
            return Start(environ={_GEMINI_VARIABLE: proxy})
        if chosen is None:
            logins = [login for name, login in _GEMINI_ELSEWHERE.items() if command.environ.get(name) == "true"]
        else:
            logins = [_GEMINI_CHOICES.get(chosen, chosen)]
        if not logins:
            what = "no login is chosen in its settings; start gemini once by itself and choose Gemini's API key"
            raise cannot("gemini", what)
        raise cannot(
            "gemini",
            f"it uses {logins[0]}, whose API Wane does not support; choose Gemini's API key in its /auth, and set"
            " GEMINI_API_KEY",
        )

    def _chosen_login(self, command: AgentCommand) -> str | None:
        """Return the login that its settings files choose, of which the first one wins."""
        environ = command.environ
        home = environ.get("GEMINI_CLI_HOME")
        user = Path(home).expanduser() if home else command.home
        standard = _GEMINI_SYSTEM_FILES.get(sys.platform, "/etc/gemini-cli/settings.json")
        system = Path(environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or standard)
        named = environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
        for path in (
            system,
            command.folder / ".gemini" / "settings.json",
            user / ".gemini" / "settings.json",
            Path(named) if named else system.with_name("system-defaults.json"),
        ):
            if chosen := text(table(read_json(path), "security", "auth"), "selectedType"):
                return chosen
        return None


_PI_PROVIDERS: Final[dict[str, tuple[Api, str]]] = {
    "anthropic": ("anthropic", ANTHROPIC),
    "openai": ("openai", OPENAI),
    "cerebras": ("openai", "https://api.cerebras.ai/v1"),
    "deepseek": ("openai", "https://api.deepseek.com"),
    "groq": ("openai", "https://api.groq.com/openai/v1"),
    "huggingface": ("openai", "https://router.huggingface.co/v1"),
    "kimi-coding": ("anthropic", "https://api.kimi.com/coding"),
    "minimax": ("anthropic", "https://api.minimax.io/anthropic"),
    "moonshotai": ("openai", "https://api.moonshot.ai/v1"),
    "together": ("openai", "https://api.together.ai/v1"),
    "vercel-ai-gateway": ("anthropic", "https://ai-gateway.vercel.sh"),
    "xai": ("openai", "https://api.x.ai/v1"),
    "zai": ("openai", "https://api.z.ai/api/coding/paas/v4"),
}
"""Built-in providers of pi with one protocol and one address for all their models."""

_PI_APIS: Final[dict[str, Api]] = {
    "anthropic-messages": "anthropic",
    "openai-completions": "openai",
    "openai-responses": "openai",
}


_PI_ELSEWHERE: Final = {
    provider: f"its provider {provider!r} speaks {how}, and through the proxy pi speaks {', '.join(_PI_APIS)}"
    for provider, how in {
        "openai-codex": "ChatGPT's own protocol",
        "google": "Gemini's protocol",
        "mistral": "Mistral's protocol",
        "amazon-bedrock": "Bedrock's protocol",
    }.items()
}
"""Why a built-in provider of pi does not work through the proxy."""


class Pi(Agent):
    """pi, with a built-in provider or one from its `models.json`.

    An extension points it at the proxy, because neither the environment nor options set a provider's address.
    """

    program = "pi"
    install = "npm install -g @earendil-works/pi-coding-agent"

    def upstream(self, command: AgentCommand) -> str:
        """Return the address of its model's provider."""
        provider = self._provider(command)
        base = text(self._add_provider(command, provider), "baseUrl") or _PI_PROVIDERS.get(provider, ("", None))[1]
        if base is None:
            what = f"the address of its provider {provider!r} is unknown; give it as --upstream, with --api"
            raise cannot("pi", _PI_ELSEWHERE.get(provider, what))
        return base

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return the option that loads an extension, and write the extension to the private directory."""
        run_no_agent = ("install", "remove", "uninstall", "update", "list", "config", "auth")
        if command.arguments[:1] and command.arguments[0] in run_no_agent:
            return Start()
        provider = self._provider(command)
        base = openai_base(proxy, upstream) if self._api(command, provider) == "openai" else proxy
        extension = private / "wane.mjs"
        call = f"pi.registerProvider({json.dumps(provider)}, {json.dumps({'baseUrl': base})})"
        extension.write_text(f"export default (pi) => {{ {call}; }};\n", encoding="utf-8")
        return Start(("-e", str(extension)))

    def _provider(self, command: AgentCommand) -> str:
        """Return the provider that pi will use, by options, settings and keys."""
        if named := command.option("--provider"):
            return named
        for models in (command.option("--model"), command.option("--models")):
            provider, slash, _ = (models or "").partition(",")[0].partition("/")
            if slash and (provider in _PI_PROVIDERS or self._add_provider(command, provider)):
                return provider
        user = read_json(self._home(command) / "settings.json")
        project = read_json(command.folder / ".pi" / "settings.json")
        if default := text({**user, **project}, "defaultProvider"):
            return default
        if command.environ.get("OPENAI_API_KEY") and not command.environ.get("ANTHROPIC_API_KEY"):
            return "openai"
        return "anthropic"

    def _api(self, command: AgentCommand, provider: str) -> Api:
        if command.api is not None:
            return command.api
        added = self._add_provider(command, provider)
        named = text(added, "api")
        for model in added.get("models") or ():
            if named is None and isinstance(model, dict):
                named = text(model, "api")
        if named is None and provider in _PI_PROVIDERS:
            return _PI_PROVIDERS[provider][0]
        if named not in _PI_APIS:
            what = f"the protocol of its provider {provider!r} is unknown; give --api anthropic or --api openai"
            raise cannot("pi", what)
        return _PI_APIS[named]

    def _add_provider(self, command: AgentCommand, provider: str) -> dict[str, Any]:
        return table(read_json(self._home(command) / "models.json"), "providers", provider)

    def _home(self, command: AgentCommand) -> Path:
        return command.directory("PI_CODING_AGENT_DIR", ".pi/agent")


_OPENCODE_PROVIDERS: Final = {"anthropic": f"{ANTHROPIC}/v1", "openai": OPENAI}
"""Built-in providers of OpenCode that were run through the proxy. Their addresses end with a version."""

_OPENCODE_APIS: Final = ("@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible")
"""Packages of the AI SDK that speak a protocol of the proxy's; a provider of the user's names one."""

_OPENCODE_VARIABLE: Final = "OPENCODE_CONFIG_CONTENT"
"""The variable with settings as JSON, which override those of all files that a user writes."""


class OpenCode(Agent):
    """OpenCode, with a key of Anthropic's or OpenAI's, or a provider of the user's own with `options.baseURL`.

    A variable with settings points that provider at the proxy. Which one it is must be written somewhere: what OpenCode
    takes by itself depends on what was used last.
    """

    program = "opencode"
    install = "npm install -g opencode-ai"

    def upstream(self, command: AgentCommand) -> str:
        """Return the address of its model's provider."""
        provider = self._provider(command)
        settings = self._settings_of(command, provider)
        base = text(table(settings, "options"), "baseURL") or _OPENCODE_PROVIDERS.get(provider)
        if base is None:
            what = (
                f"the address of its provider {provider!r} is unknown; if it speaks OpenAI's or Anthropic's protocol,"
            )
            raise cannot("opencode", f"{what} give it as --upstream")
        return base

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the settings that point its provider at the proxy, on top of those that the environment holds."""
        provider = self._provider(command)
        package = text(self._settings_of(command, provider), "npm")
        if package is not None and package not in _OPENCODE_APIS:
            what = f"its provider {provider!r} speaks by {package}; Wane knows {', '.join(_OPENCODE_APIS)}"
            raise cannot("opencode", what)
        data = command.directory("XDG_DATA_HOME", ".local/share")
        login = table(read_json(data / "opencode" / "auth.json"), provider)
        if provider == "openai" and login.get("type") == "oauth":
            what = (
                "its login with ChatGPT sends all requests to ChatGPT, whatever its settings say; use a key of the API"
            )
            raise cannot("opencode", what)
        settings = parse_settings(command.environ.get(_OPENCODE_VARIABLE, ""), json.loads)
        providers = table(settings, "provider")
        entry = table(providers, provider)
        options = {**table(entry, "options"), "baseURL": openai_base(proxy, upstream)}
        settings["provider"] = {**providers, provider: {**entry, "options": options}}
        return Start(environ={_OPENCODE_VARIABLE: json.dumps(settings)})

    def _provider(self, command: AgentCommand) -> str:
        """Return the provider of the model that the command line or the settings name."""
        named = command.option("-m", "--model")
        for settings in self._settings(command):
            named = named or text(settings, "model")
        if named is None:
            what = 'its model is not named; give --model PROVIDER/MODEL, or write "model" into its opencode.json'
            raise cannot("opencode", what)
        return named.partition("/")[0]

    def _settings_of(self, command: AgentCommand, provider: str) -> dict[str, Any]:
        """Return the settings of a provider; what stands in several places is that of the first."""
        merged: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for settings in self._settings(command):
            entry = table(settings, "provider", provider)
            merged = {**entry, **merged}
            options = {**table(entry, "options"), **options}
        return {**merged, "options": options}

    def _settings(self, command: AgentCommand) -> Iterator[dict[str, Any]]:
        """Yield its settings, the winning ones first: the environment's, the project's, a named file's, the user's."""
        yield parse_settings(command.environ.get(_OPENCODE_VARIABLE, ""), parse_jsonc)
        user = command.directory("XDG_CONFIG_HOME", ".config") / "opencode"
        folders = [*(folder / ".opencode" for folder in (command.folder, *command.folder.parents))]
        folders += [command.folder, *command.folder.parents]
        files = [folder / name for folder in folders for name in ("opencode.jsonc", "opencode.json")]
        if named := command.environ.get("OPENCODE_CONFIG"):
            files.append(command.folder / named)
        files += [user / name for name in ("opencode.jsonc", "opencode.json", "config.json")]
        for path in files:
            yield read_jsonc(path)


_COPILOT_VARIABLE: Final = "COPILOT_PROVIDER_BASE_URL"


class Copilot(Agent):
    """GitHub Copilot CLI with a provider of the user's own, which variables name (`copilot help providers`)."""

    program = "copilot"
    install = "npm install -g @github/copilot"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the environment."""
        base = command.environ.get(_COPILOT_VARIABLE)
        if base is None:
            what = f"it asks GitHub, whose API Wane does not support, unless {_COPILOT_VARIABLE} names another provider"
            raise cannot("copilot", f"{what}; see copilot help providers")
        return base

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment."""
        kind = command.environ.get("COPILOT_PROVIDER_TYPE") or "openai"
        if kind not in ("openai", "anthropic"):
            raise cannot("copilot", f"COPILOT_PROVIDER_TYPE is {kind}; Wane knows openai and anthropic")
        if command.environ.get("COPILOT_PROVIDER_TRANSPORT", "http") != "http":
            raise cannot(
                "copilot", "COPILOT_PROVIDER_TRANSPORT asks for web sockets, which Wane does not speak; unset it"
            )
        note = ""
        if kind == "openai" and command.environ.get("COPILOT_PROVIDER_WIRE_API") == "responses":
            note = (
                "copilot returns the items of an answer by Responses under other ids (1.0.102), which a provider may"
                " refuse, without Wane too; COPILOT_PROVIDER_WIRE_API=completions does not"
            )
        base = openai_base(proxy, upstream) if kind == "openai" else proxy
        return Start(environ={_COPILOT_VARIABLE: base}, note=note)


class QwenCode(Agent):
    """Qwen Code with a key, by OpenAI's or Anthropic's API.

    A variable points it at the proxy. It overrides `security.auth.baseUrl` of the settings, but not the entries of
    `modelProviders`, which override the option `--openai-base-url`, too (0.24.4).
    """

    program = "qwen"
    install = "npm install -g @qwen-code/qwen-code"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the environment or the settings."""
        variable = self._variable(command)
        base = command.environ.get(variable)
        for settings in self._settings(command):
            base = (
                base or text(table(settings, "env"), variable) or text(table(settings, "security", "auth"), "baseUrl")
            )
        if base is None:
            raise cannot("qwen", f"the address of its provider is unknown; set {variable}, or give it as --upstream")
        return base

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment."""
        variable, login = self._variable(command), self._login(command) or ""
        for settings in self._settings(command):
            if table(settings, "modelProviders").get(login):
                what = f"modelProviders.{login} of its settings holds addresses, which no variable or option overrides"
                raise cannot("qwen", f"{what}; write the address of a wane proxy there, as baseUrl")
        if command.option("--openai-base-url") is not None:
            raise cannot("qwen", "--openai-base-url is given; remove it, and give its value as --upstream")
        return Start(environ={variable: proxy if login == "anthropic" else openai_base(proxy, upstream)})

    def _variable(self, command: AgentCommand) -> str:
        login = self._login(command)
        if login not in ("openai", "openai-responses", "anthropic"):
            what = f"it uses {login}" if login else "no login is chosen in its settings"
            raise cannot("qwen", f"{what}; choose a key with --auth-type openai, openai-responses or anthropic")
        return _CLAUDE_VARIABLE if login == "anthropic" else "OPENAI_BASE_URL"

    def _login(self, command: AgentCommand) -> str | None:
        login = command.option("--auth-type")
        for settings in self._settings(command):
            login = login or text(table(settings, "security", "auth"), "selectedType")
        return login or ("openai" if command.environ.get("OPENAI_API_KEY") else None)

    def _settings(self, command: AgentCommand) -> Iterator[dict[str, Any]]:
        """Yield the project's settings, which win, and the user's."""
        yield read_jsonc(command.folder / ".qwen" / "settings.json")
        yield read_jsonc(command.directory("QWEN_HOME", ".qwen") / "settings.json")


_KIMI_VARIABLES: Final = {
    "openai": ("OPENAI_BASE_URL", OPENAI),
    "anthropic": (_CLAUDE_VARIABLE, ANTHROPIC),
}
"""By type of a provider, the variable with its base URL, and the one that it has by itself."""


class KimiCode(Agent):
    """Kimi Code with a provider of its `config.toml` whose address stands in a variable.

    An address in the file overrides the variable (2.1.0), and no option changes it.
    """

    program = "kimi"
    install = "npm install -g @moonshot-ai/kimi-code"

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider, by the environment; that of its type by default."""
        variable, standard = self._variable(command)
        return command.environ.get(variable) or standard

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment."""
        variable, _ = self._variable(command)
        return Start(environ={variable: proxy if variable == _CLAUDE_VARIABLE else openai_base(proxy, upstream)})

    def _variable(self, command: AgentCommand) -> tuple[str, str]:
        """Return the variable with the address of its model's provider, and the address without it."""
        file = command.directory("KIMI_CODE_HOME", ".kimi-code") / "config.toml"
        config = read_toml(file)
        model = command.option("-m", "--model") or text(config, "default_model") or ""
        provider = text(table(config, "models", model), "provider") or ""
        settings = table(config, "providers", provider)
        kind = text(settings, "type") or "unknown"
        if kind not in _KIMI_VARIABLES:
            what = f"the provider of its model {model!r} is of type {kind}; Wane knows {' and '.join(_KIMI_VARIABLES)}"
            raise cannot("kimi", what)
        if text(settings, "base_url"):
            what = f"{file} holds base_url of {provider!r}, which no variable or option overrides"
            raise cannot(
                "kimi", f"{what}; write the address of a wane proxy there, or move it to {_KIMI_VARIABLES[kind][0]}"
            )
        return _KIMI_VARIABLES[kind]


_VIBE_VARIABLE: Final = "VIBE_PROVIDERS"
"""The variable with providers as JSON, which override those of the same name in its files."""

_VIBE_MISTRAL: Final = {
    "name": "mistral",
    "api_base": "https://api.mistral.ai/v1",
    "api_key_env_var": "MISTRAL_API_KEY",
    "backend": "mistral",
}
"""The provider that Mistral Vibe has by itself (3.0.3)."""


class MistralVibe(Agent):
    """Mistral Vibe with Mistral's API, or a provider of its `config.toml` that speaks OpenAI's Chat Completions.

    A variable with the provider, in which the address is the proxy's, points it there.
    """

    program = "vibe"
    install = "uv tool install mistral-vibe"

    def upstream(self, command: AgentCommand) -> str:
        """Return the address of its model's provider."""
        return text(self._provider(command), "api_base") or str(_VIBE_MISTRAL["api_base"])

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment, with the providers that it holds already."""
        provider = self._provider(command)
        style = text(provider, "api_style") or "openai"
        if style != "openai":
            what = f"its provider {provider['name']!r} has the api_style {style}; Wane knows openai"
            raise cannot("vibe", what)
        others = [entry for entry in self._read_providers(command) if entry.get("name") != provider["name"]]
        pointed = {**provider, "api_base": openai_base(proxy, upstream)}
        return Start(environ={_VIBE_VARIABLE: json.dumps([*others, pointed])})

    def _provider(self, command: AgentCommand) -> dict[str, Any]:
        """Return the provider of the active model; Mistral's for a model that no file describes."""
        active, models, providers = command.environ.get("VIBE_ACTIVE_MODEL"), list[Any](), self._read_providers(command)
        for config in self._configs(command):
            active = active or text(config, "active_model")
            models += objects_in(config.get("models"))
            providers += objects_in(config.get("providers"))
        name = "mistral"
        for model in models:
            if active in (model.get("alias"), model.get("name")):
                name = text(model, "provider") or name
                break
        merged: dict[str, Any] = dict(_VIBE_MISTRAL) if name == "mistral" else {"name": name}
        for entry in reversed(providers):
            if entry.get("name") == name:
                merged |= entry
        if "api_base" not in merged:
            raise cannot("vibe", f"config.toml does not describe the provider {name!r} of its model {active!r}")
        return merged

    def _read_providers(self, command: AgentCommand) -> list[dict[str, Any]]:
        """Return the providers in the environment."""
        try:
            return list(objects_in(json.loads(command.environ.get(_VIBE_VARIABLE) or "[]")))
        except ValueError:
            return []

    def _configs(self, command: AgentCommand) -> Iterator[dict[str, Any]]:
        """Yield the project's settings, which win, and the user's."""
        yield read_toml(command.folder / ".vibe" / "config.toml")
        yield read_toml(command.directory("VIBE_HOME", ".vibe") / "config.toml")


class MistralVibeInEditor(MistralVibe):
    """Mistral Vibe as editors run it, over the Agent Client Protocol."""

    program = "vibe-acp"


class Cline(Agent):
    """Cline's CLI, whose settings hold the address of its provider, and nothing overrides them."""

    program = "cline"
    install = "npm install -g cline"

    def upstream(self, command: AgentCommand) -> str:  # noqa: ARG002
        """Refuse, with the way that works."""
        raise cannot("cline", _CLINE_ADVICE)

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Refuse likewise."""
        raise cannot("cline", f"{_CLINE_ADVICE}; --upstream does not help")


_CLINE_ADVICE: Final = (
    "no variable or option changes the address of its provider; start wane proxy, and write its address with"
    " cline auth PROVIDER --baseurl"
)

_OTHER_VARIABLES: Final[dict[Api, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": (_GEMINI_VARIABLE,),
}
"""The variables with a base URL, by protocol. LiteLLM, and so aider, reads those that end with `_API_BASE`."""

_PROVIDERS: Final[dict[Api, str]] = {"anthropic": ANTHROPIC, "openai": OPENAI, "gemini": GOOGLE}


class OtherAgent(Agent):
    """Any other agent."""

    def __init__(self, program: str) -> None:
        self.program = program

    def upstream(self, command: AgentCommand) -> str:
        """Return the provider that the environment sets for the agent's API, or else that API's own."""
        api = self._api(command)
        for name in _OTHER_VARIABLES[api]:
            if url := command.environ.get(name):
                return url
        return _PROVIDERS[api]

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:  # noqa: ARG002
        """Return the environment, with a note that the agent may ignore it."""
        api = self._api(command)
        base = openai_base(proxy, upstream) if api == "openai" else proxy
        names = _OTHER_VARIABLES[api]
        verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
        note = f"Wane does not know {self.program}: {' and '.join(names)} {verb} set, but it may ignore {them}"
        return Start(environ=dict.fromkeys(names, base), note=note)

    def _api(self, command: AgentCommand) -> Api:
        if command.api is not None:
            return command.api
        host = UpstreamUrl.parse(command.upstream).host if command.upstream else ""
        for api, url in _PROVIDERS.items():
            if host == UpstreamUrl.parse(url).host:
                return api
        known = ", ".join(agent.program for agent in AGENTS)
        raise ConfigError(
            f"Wane does not know {self.program} (it knows {known}): give its protocol, --api"
            " anthropic, openai or gemini, and --upstream if its provider is another"
        )


class Aider(OtherAgent):
    """aider, whose requests hold nothing that can be evicted; it runs through the proxy if that is asked (0.86.2)."""

    install = "uv tool install aider-chat"

    def __init__(self) -> None:
        super().__init__("aider")

    def start(self, command: AgentCommand, proxy: str, upstream: UpstreamUrl, private: Path) -> Start:
        """Return the environment, with a note that nothing changes."""
        environ = super().start(command, proxy, upstream, private).environ
        return Start(environ=environ, note=f"{_AIDER_HAS_NOTHING}; every request passes unchanged")

    def _api(self, command: AgentCommand) -> Api:
        if command.api is None and command.upstream is None:
            what = f"{_AIDER_HAS_NOTHING}; give --api openai or anthropic to pass its requests on unchanged"
            raise cannot("aider", what)
        return super()._api(command)


_AIDER_HAS_NOTHING: Final = (
    "aider asks for edits as text, uses no tools and keeps its own context small, so there is nothing to evict"
)

AGENTS: Final[tuple[Agent, ...]] = (
    ClaudeCode(),
    ClaudeInEditor(),
    Codex(),
    CodexInEditor(),
    GeminiCli(),
    OpenCode(),
    Pi(),
    Copilot(),
    QwenCode(),
    KimiCode(),
    MistralVibe(),
    MistralVibeInEditor(),
    Cline(),
    Aider(),
)
"""The agents that Wane knows."""


def agent_of(program: str) -> Agent:
    """Return the agent of a program, by its file name."""
    path = PurePath(program)
    name = path.stem if path.suffix.lower() in (".exe", ".cmd", ".bat", ".ps1") else path.name
    for agent in AGENTS:
        if agent.program == name:
            return agent
    return OtherAgent(name)
