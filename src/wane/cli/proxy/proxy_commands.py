"""The commands `proxy`, `run` and `statusline`: what each takes, what its help says, and what runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from wane.cli import flag_values
from wane.cli.failure import UsageError
from wane.cli.shared_flags import Budget, PolicyName, PolicyOptions, ToolClasses, Window
from wane.flags import Flag, declare_flags, read_by

_Level: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How contexts are managed."""

    budget: Budget = "80k"
    agent_budget: Annotated[
        str | None,
        Flag(
            "--agent-budget",
            "Tokens that the view of a sub-agent may hold: 40k, or 20% of --window. The default is --budget.",
            "TOKENS",
        ),
    ] = None
    window: Window = None
    strategy: Annotated[
        str,
        Flag(
            "--strategy",
            "How to manage the context: cwl (Wane's own, the default: evict episodes), paper (the same in the smallest "
            "steps), truncate (drop the oldest messages), streaming (keep the first and the latest messages), "
            "clear-tools (drop old tool results), mask (drop all tool results but the latest ten, whatever the "
            "budget), fold (drop each episode once its model has closed it), none, or one that an extension adds.",
            "STRATEGY",
            read=read_by("wane.strategies.registry:check_unaided"),
        ),
    ] = "cwl"
    annotate: Annotated[
        Literal["model", "infer"],
        Flag(
            "--annotate",
            "Who marks episodes: model (the default, with a tool that the proxy adds), or infer (from tool calls, if "
            "the model marks none).",
            "WHO",
        ),
    ] = "model"
    tasks: Annotated[
        bool,
        Flag(
            "--tasks",
            "Let the model group episodes into tasks. When the work of a task has left the view, one line on it stays.",
        ),
    ] = False
    recall: Annotated[
        bool,
        Flag(
            "--recall",
            "Give the model the tool recall, which returns evicted content word for word: an episode, or the matches "
            "of a search.",
        ),
    ] = False
    remind_at: Annotated[
        flag_values.ShareOrNone | None,
        Flag(
            "--remind-at",
            "Share of the budget that work outside episodes may fill before the model is reminded to mark it, or none "
            "for never. The default is 0.2, and a quarter of that until the first episode starts.",
            "SHARE",
            read=flag_values.share_or_none,
        ),
    ] = None
    policy: Annotated[
        PolicyName,
        Flag("--policy", "How Wane evicts: default (in batches) or paper (in the smallest steps).", "POLICY"),
    ] = "default"
    policy_settings: PolicyOptions = field(default_factory=PolicyOptions)
    tool_classes: ToolClasses = ()
    store: Annotated[
        str | None,
        Flag(
            "--store",
            "Where to store sessions: disk (the default), a directory, or redis://… or postgresql://…, which several "
            "proxies may share; give a URL with a password as WANE_PROXY_STORE instead.",
            "WHERE",
        ),
    ] = None
    no_store: Annotated[bool, Flag("--no-store", "Keep sessions in memory only, and write nothing to disk.")] = False
    keep: Annotated[
        float | None,
        Flag(
            "--keep",
            "Delete stored sessions this long after their last use, such as 30d (the default), 12h or never.",
            "AGE",
            read=flag_values.age_or_never,
        ),
    ] = None
    digests_only: Annotated[
        bool,
        Flag(
            "--digests-only",
            "Store only a digest of each request. What the model received, such as the system prompt, the tools and "
            "the view, then cannot be shown (wane show --at).",
        ),
    ] = False
    idle: Annotated[
        float | None,
        Flag(
            "--idle",
            "Seconds without a request after which a session leaves memory; a stored one is loaded again when needed. "
            "The default is 900.",
            "SECONDS",
            read=flag_values.seconds,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentOptions:
    """How requests are treated."""

    shadow: Annotated[
        bool,
        Flag(
            "--shadow",
            "Change nothing: every request passes as it is. At the end, and on the page, say what Wane would have "
            "evicted and saved, and how much of the evicted content the agent needed later.",
        ),
    ] = False
    strict: Annotated[
        bool,
        Flag(
            "--strict",
            "Answer with an error if Wane fails or cannot store a session; by default the request continues, with a "
            "warning.",
        ),
    ] = False
    usage: Annotated[
        Literal["auto", "sum", "last"] | None,
        Flag(
            "--usage",
            "Usage to report for a reply that took several requests to the provider: sum (of all), last (of the last "
            "one, for agents that compact their context by it) or auto (last for Claude Code, Codex and pi, sum for "
            "others). The default is auto; with wane run it is last.",
            "WHAT",
        ),
    ] = None
    max_body: Annotated[
        int | None,
        Flag(
            "--max-body",
            "The largest model request to accept, decoded. The default is 128m; larger ones get HTTP 413.",
            "BYTES",
            read=flag_values.size,
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        Flag(
            "--max-cost",
            "Refuse model requests, with HTTP 402, that could raise the cost above this many dollars. Requests whose "
            "cost is not known, such as embeddings and batches, pass and do not count. By default there is no limit.",
            "DOLLARS",
        ),
    ] = None
    max_cost_per: Annotated[
        Literal["run", "day", "month", "total"] | None,
        Flag(
            "--max-cost-per",
            "What --max-cost is for: run (this process), day or month (in UTC), or total (all that the store has "
            "recorded). The last three count all proxies with the same store, and survive restarts. The default is "
            "total; with wane run it is run.",
            "PERIOD",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        Flag(
            "--timeout",
            "Seconds to wait for the provider's next byte, the first one included. The default is 600.",
            "SECONDS",
            read=flag_values.seconds,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyCommandOptions:
    """Stand between an agent and its provider, and keep the agent's context within a budget.

    The agent needs no change except its base URL. It gets ordinary answers, streamed as they arrive: the proxy gives
    the model the delimiter tool, answers its calls, and evicts whole episodes when the view exceeds the budget. It
    understands Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Gemini, and passes everything else on
    unchanged. It sends the client's keys to the provider, and never logs or stores them.

    Examples:
      wane proxy --upstream https://api.anthropic.com
      wane proxy --upstream https://api.openai.com --budget 60k
      wane proxy --upstream http://127.0.0.1:11434 --annotate infer
      wane proxy --upstream https://openrouter.ai/api/v1 --listen 127.0.0.1:9000
      wane proxy --upstream https://api.anthropic.com --store redis://localhost
      wane proxy --upstream https://api.anthropic.com --shadow

    What to set in the client:
      ANTHROPIC_BASE_URL=http://127.0.0.1:8484      Claude Code, anthropic SDKs
      OPENAI_BASE_URL=http://127.0.0.1:8484/v1      openai SDKs, and most others
      GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8484  Gemini CLI, google-genai
      base_url = "http://127.0.0.1:8484/v1"         in Codex's config.toml

    To serve other machines, set WANE_PROXY_TOKEN and --listen 0.0.0.0:8484. Clients then send the token as the header
    x-wane-token, or put it into their base URL, before the path: http://HOST:8484/~TOKEN/v1.

    Response headers say what the proxy did: x-wane-session, x-wane-view, x-wane-budget and x-wane-evicted (tokens),
    x-wane-unmanaged (why a request was not managed) and x-wane-warning (what is wrong). Watch the sessions at /wane/,
    read them as JSON at /wane/status, or let Prometheus read /wane/metrics. A session that cannot be stored stays in
    memory; one that cannot be read starts over from the request, within its budget. A request is passed on unchanged
    only if Wane itself fails. With --strict, the client gets an error instead.

    Ctrl-C or a signal stops it. Open requests get 3 seconds to finish; then those without an answer get an error (503),
    and streams end with one. A second Ctrl-C stops at once.

    Exit codes:
      0    stopped by Ctrl-C or a signal
      1    an extra is missing, it cannot listen, or its store cannot be reached
      2    an option cannot be used
      130  stopped by a second Ctrl-C, without waiting for open requests
    """

    upstream: Annotated[
        str | None,
        Flag(
            "--upstream",
            "The provider's base URL, such as https://api.anthropic.com. Requests go there and nowhere else.",
            "URL",
        ),
    ] = None
    fallback: Annotated[
        str | None,
        Flag(
            "--fallback",
            "Another provider's base URL, which gets model requests while the upstream is down. Clients' keys are sent "
            "there too, unless WANE_PROXY_FALLBACK_KEY has the key to send.",
            "URL",
        ),
    ] = None
    listen: Annotated[
        str | None,
        Flag("--listen", "Where to listen. The default is 127.0.0.1:8484; port 0 takes any free port.", "HOST:PORT"),
    ] = None
    context: ContextOptions = field(default_factory=ContextOptions)
    token: Annotated[
        str | None,
        Flag(
            "--token",
            "Secret that clients must send, at least 16 characters. WANE_PROXY_TOKEN is safer, because other users of "
            "the machine can see options. Needed to listen anywhere but on loopback.",
            "TOKEN",
        ),
    ] = None
    team: Annotated[
        bool,
        Flag(
            "--team",
            "Admit only the names in the store, each with its own token: see wane proxy tokens --help.",
        ),
    ] = False
    treatment: TreatmentOptions = field(default_factory=TreatmentOptions)
    log_level: Annotated[
        _Level | None,
        Flag(
            "--log-level",
            "What to log to standard error: debug, info (a line for each request, the default), warning or error.",
            "LEVEL",
        ),
    ] = None
    workers: Annotated[
        int,
        Flag(
            "--workers",
            "Number of processes that serve the address together; several need a store that they can share, redis://… "
            "or postgresql://…. The default is 1.",
            "NUMBER",
        ),
    ] = 1
    grace: Annotated[
        float | None,
        Flag(
            "--grace",
            "Seconds that open requests get to finish when the proxy stops. The default is 3.",
            "SECONDS",
            read=flag_values.seconds,
        ),
    ] = None
    quiet: Annotated[bool, Flag("-q, --quiet", "Print warnings only.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Run a coding agent with its context kept within a budget, without changing the agent's setup.

    A proxy starts on a free port, and stops when the agent ends. The agent has the terminal to itself, and its exit
    code is returned. It is pointed at the proxy for this run only: by an environment variable for Claude Code,
    Gemini CLI, OpenCode, Copilot CLI, Qwen Code, Kimi Code and Mistral Vibe, an option for Codex, an extension for pi.
    Its login or key, its provider and its other settings stay the same.

    Examples:
      wane run claude
      wane run --budget 60k claude -p "make the tests pass"
      wane run codex exec "make the tests pass"
      wane run pi --model anthropic/claude-sonnet-5-5
      wane run --api openai --upstream https://openrouter.ai/api/v1 my-agent

    At the start it prints the address of a page that shows the sessions; at the end the number of requests, the
    largest view, how much was evicted, the session's id and the commands that show it, all to standard error. The agent
    finds the proxy's address in WANE_PROXY_URL; --listen chooses it. For a proxy that keeps running, see wane proxy
    --help.

    Exit codes:
      the agent's own, or 128 plus the number of the signal that ended it
      1    an extra is missing, or the proxy cannot listen
      2    an option cannot be used, or the agent cannot be pointed at a proxy
      127  the agent is not installed
    """

    agent: Annotated[
        str,
        Flag(
            "AGENT",
            "The agent's program and its arguments: claude, codex, gemini, opencode, pi, copilot, "
            "qwen, kimi, vibe, their programs for editors (claude-agent-acp, codex-acp, vibe-acp), or with --api any "
            "other. "
            "Everything after its name goes to it.",
            "AGENT [ARGUMENT ...]",
        ),
    ]
    arguments: tuple[str, ...] = ()
    context: ContextOptions = field(default_factory=ContextOptions)
    upstream: Annotated[
        str | None,
        Flag("--upstream", "The provider's base URL. The default is the one that the agent uses by itself.", "URL"),
    ] = None
    api: Annotated[
        Literal["anthropic", "openai", "gemini"] | None,
        Flag("--api", "Protocol of an agent that Wane does not know: anthropic, openai or gemini.", "API"),
    ] = None
    listen: Annotated[
        str | None,
        Flag(
            "--listen",
            "Where the proxy listens, on loopback only. The default is any free port of 127.0.0.1.",
            "HOST:PORT",
        ),
    ] = None
    treatment: TreatmentOptions = field(default_factory=TreatmentOptions)
    price: Annotated[
        str | None,
        Flag(
            "--price",
            "Price calls of a model without known prices at the prices of this one. The default leaves them without a "
            "price.",
            "PROVIDER:MODEL",
        ),
    ] = None
    log: Annotated[
        Path | None,
        Flag(
            "--log",
            "Write the proxy's log to FILE. The default is a new file in the platform's log directory, where the last "
            "20 are kept.",
            "FILE",
        ),
    ] = None
    log_level: Annotated[
        _Level,
        Flag(
            "--log-level", "What to log: debug, info (a line for each request, the default), warning or error.", "LEVEL"
        ),
    ] = "info"
    quiet: Annotated[bool, Flag("-q, --quiet", "Print only errors of Wane's own.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatuslineOptions:
    """Print one line about an agent's session in the proxy, for the agent's status line.

    Claude Code writes its session's id to standard input; without one, the line is about the session served last. It
    shows the view and its budget, what was evicted just now and in total, and the cost if prices are known. For
    Claude Code, put this into its settings.json:

    {"statusLine": {"type": "command", "command": "wane statusline"}}

    Examples:
      wane statusline
      wane statusline --url http://127.0.0.1:8484
    """

    url: Annotated[
        str | None,
        Flag(
            "--url",
            "The proxy's address. The default is that of wane run, or the ANTHROPIC_BASE_URL of the agent.",
            "URL",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooseOptions:
    """Keep an episode of a running session in view, or let it go now.

    Without arguments it lists the episodes in view. Within wane run, as in a terminal of the agent's, it finds the
    proxy by itself; elsewhere give the address of the proxy's page.

    Examples:
      wane choose
      wane choose keep 3
      wane choose drop read-old-log
      wane choose release 3
      wane choose --url 'http://127.0.0.1:8484/wane/#key=KEY' keep 3
    """

    choice: Annotated[str | None, Flag("CHOICE", "keep, drop, or release, which takes either back.", "[CHOICE]")] = None
    episode: Annotated[Sequence[str], Flag("EPISODE", "The episode's number or name.", "[EPISODE]")] = ()
    session: Annotated[
        str | None, Flag("--session", "The agent's own id of its session. The default is the one served last.", "ID")
    ] = None
    url: Annotated[
        str | None,
        Flag("--url", "The address of the proxy's page, with its key. The default is that of wane run.", "URL"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOptions:
    """Give an agent commands for what wane choose does, or take them away.

    In sessions that wane run started: /wane:episodes, /wane:keep NUMBER, /wane:drop NUMBER and /wane:release NUMBER;
    /wane/keep and so on in OpenCode, /wane keep NUMBER in Copilot CLI and pi. Only a person calls them, not the model.

    Examples:
      wane plugin install claude
      wane plugin uninstall claude
    """

    action: Annotated[str, Flag("ACTION", "install or uninstall.", "ACTION")]
    agent: Annotated[str, Flag("AGENT", "The agent: claude, copilot, gemini, opencode, pi or qwen.", "AGENT")]


_AGENTS_TOO: Final = ("--listen", "--log-level", "--policy")
"""Options of `wane run` whose names an agent that Wane knows has for an option of its own."""


def split(args: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split the command line of `wane run`: return it up to the agent's name, and the agent's arguments.

    The agent is the first word that is neither an option nor an option's value, or the word after two dashes. The
    command line of another command is returned unchanged.

    Raises:
        UsageError: if there is no agent, or if an option of `wane run` stands behind one that has no such option.
    """
    if args[:1] != ["run"]:
        return list(args), ()
    names: set[str] = set()
    with_value: set[str] = set()
    for option in declare_flags(RunOptions):
        spelled = option.flag.spelled.split(", ")
        names.update(name for name in spelled if name.startswith("--"))
        if option.flag.value:
            with_value.update(spelled)
    index = 1
    while index < len(args) and args[index].startswith("-") and args[index] != "--":
        if args[index] in ("-h", "--help"):
            return list(args[: index + 1]), ()
        index += 2 if args[index] in with_value else 1
    own, agent = args[:index], args[index:]
    is_named = agent[:1] != ["--"]
    if not is_named:
        agent = agent[1:]
    if not agent:
        taken = f": {own[-2]} took {own[-1]!r} as its value" if len(own) > 2 and own[-2] in with_value else ""
        raise UsageError(f"give the agent to run, such as: wane run claude{taken}; see wane run --help")
    for argument in agent[1:] if is_named else ():
        name = argument.partition("=")[0]
        if argument == "--":
            break
        if name in names.difference(_AGENTS_TOO):
            from wane.proxy.agents.known import OtherAgent, agent_of

            if isinstance(agent_of(agent[0]), OtherAgent):
                break
            raise UsageError(
                f"{name} is an option of wane run, and wane's options go before {agent[0]}: wane run {name} …"
                f" {agent[0]} …; if it is for {agent[0]}, write wane run -- {agent[0]} {name} …"
            )
    return [*own, "--", agent[0]], tuple(agent[1:])
