"""The proxy's counters for Prometheus, and its access log.

The server opens `RequestCounters` for each request and reports to them; nothing is counted elsewhere. Labels have few
values: the API, the outcome, an HTTP status. No session, model, tool or text is a label. The log has one line for each
request, without any content.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from wane.conversation.engine import plausible
from wane.formats import FORMAT_NAMES
from wane.prices import NO_USAGE
from wane.proxy.sessions.caching import RewrittenPrefix
from wane.proxy.sessions.memory import Facts
from wane.proxy.wire.wire import Round

if TYPE_CHECKING:
    from wane.proxy.telemetry import Telemetry

Outcome = Literal[
    "managed",  # the client got a whole reply to a view that Wane decided
    "passed",  # passed on unchanged: not a model request, or one that cannot or need not be managed
    "failed_open",  # Wane failed, and the request was passed on unchanged
    "refused",  # the proxy answered with an error of its own and sent nothing upstream
    "provider_error",  # the provider answered with an error, which was passed on unchanged
    "unreachable",  # the provider could not be reached, or did not answer in time
    "broken",  # the reply broke off or violated its protocol
    "client_gone",  # the client disconnected before the end
]
"""How a request ended. If several outcomes fit, the last of them counts."""

UpstreamFault = Literal["connect", "timeout", "reset", "malformed"]
"""How an upstream request failed without an HTTP status."""

ACCESS: Final = logging.getLogger("wane.proxy.access")
"""The logger of the access log, at level INFO."""

OTHER: Final = "other"
"""Value of the label `api` for everything that is no request to a model."""

_FAST: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)  # seconds
_SLOW: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)  # seconds
_TOKENS: Final = (1e3, 5e3, 1e4, 2e4, 4e4, 6e4, 8e4, 1e5, 1.5e5, 2e5, 4e5, 1e6)


class Traffic:
    """The counters of one proxy, in their own registry.

    Attributes:
        telemetry: traces managed requests; None for no traces.
        registry: the registry; collectors added to it are part of `metrics`.
        clock: returns monotonic seconds.
        peak: tokens of the largest view so far: the provider's number if that is plausible, or else our own count.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, telemetry: Telemetry | None = None) -> None:
        self.telemetry = telemetry
        self.registry = CollectorRegistry()
        self.clock = clock
        self.peak = 0
        self.requests = self._counter("wane_requests", "Requests of clients, by how they ended.", "api", "outcome")
        self.rounds = self._counter("wane_rounds", "Requests to the model for managed requests.", "api")
        self.faults = self._counter("wane_upstream_errors", "Upstream requests that failed.", "api", "status")
        self.fail_opens = self._counter("wane_fail_opens", "Requests passed on unchanged because Wane failed.", "api")
        self.tokens = self._counter("wane_tokens", "Tokens that the provider reported.", "api", "kind")
        self.evicted = self._counter("wane_evicted_tokens", "Tokens that left a view.", "api")
        self.fallbacks = self._counter("wane_fallbacks", "Requests sent to the second upstream.", "api", "reason")
        self.dollars = self._counter("wane_dollars", "What managed requests cost, where prices are known.", "api")
        self.agent_dollars = self._counter(
            "wane_agent_dollars", "The part of wane_dollars that sub-agents cost.", "api"
        )
        self.rewritten = self._counter(
            "wane_rewritten_tokens", "Tokens paid again although they were cached, by cause.", "api", "cause"
        )
        self.rewritten_dollars = self._counter(
            "wane_rewritten_dollars", "What these cost more than reads, where prices are known.", "api", "cause"
        )
        self.bytes = self._counter("wane_bytes", "Bytes from clients (in) and to them (out).", "api", "direction")
        self.open = Gauge("wane_open_requests", "Requests being answered.", ("api",), registry=self.registry)
        self.added = self._histogram("wane_added_seconds", "From a whole request to its sending upstream.", _FAST)
        self.first = self._histogram("wane_first_byte_seconds", "From a whole request to the first byte back.", _SLOW)
        self.whole = self._histogram("wane_request_seconds", "From a request's start to the end of its reply.", _SLOW)
        self.view = self._histogram("wane_view_tokens", "Tokens of the view of a managed request.", _TOKENS)
        self.history = self._histogram("wane_history_tokens", "Tokens of the whole history, evicted or not.", _TOKENS)

    def request(self, api: str, what: str = "") -> RequestCounters:
        """Start counting a request by the name of its wire, and its method and path for the log (`what`).

        Any name but that of a format counts as `other`, so that labels stay few.
        """
        return RequestCounters(self, api if api in FORMAT_NAMES else OTHER, what)

    def metrics(self) -> bytes:
        """Return all metrics in Prometheus' text format (version 0.0.4).

        The `_created` samples are left out: they double the lines and are of no use.
        """
        metrics = list(self.registry.collect())
        for metric in metrics:
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
        return as_text(metrics)

    def outcomes(self) -> dict[str, int]:
        """Return the number of requests so far, by outcome."""
        counts: dict[str, int] = {}
        for sample in _samples(self.requests):
            outcome = sample.labels["outcome"]
            counts[outcome] = counts.get(outcome, 0) + int(sample.value)
        return counts

    def evicted_tokens(self) -> int:
        """Return how many tokens have been evicted so far."""
        return int(sum(sample.value for sample in _samples(self.evicted)))

    def open_requests(self) -> int:
        """Return how many requests are open."""
        return int(sum(sample.value for sample in _samples(self.open)))

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, ("api",), buckets=buckets, registry=self.registry)


class RequestCounters:
    """The counters of one request, from its first byte to the end of its reply; a context manager.

    Attributes:
        outcome: how it ended; `passed` unless the server sets it.
        what: its method and path, for the log.
        owner: the member of a team who sent it; empty for none.
        facts: figures of its view; None before it is managed.
        rounds: how many requests were sent to the provider's model.
        used: their usage, as the provider reported it.
        largest: input tokens of the largest of them, as the provider reported it; 0 if it reported none.
        sending: called with the body and the URL of each request that is about to be sent; None to call nothing.
    """

    def __init__(self, traffic: Traffic, api: str, what: str) -> None:
        self.outcome: Outcome = "passed"
        self.what = what
        self.owner = ""
        self.facts: Facts | None = None
        self.rounds = 0
        self.used = NO_USAGE
        self.largest = 0
        self.sending: Callable[[bytes, str], Awaitable[None]] | None = None
        self._traffic = traffic
        self._api = api
        self._started = self._ready = traffic.clock()
        self._in = 0
        self._out = 0
        traffic.open.labels(api).inc()

    def count_received(self, size: int) -> None:
        """Count bytes of the request's body. The proxy's own time runs from the last call."""
        self._in += size
        self._ready = self._traffic.clock()

    def count_prepared(self, facts: Facts) -> None:
        """Count a managed request's view, right before its first request upstream."""
        self._traffic.added.labels(self._api).observe(self._traffic.clock() - self._ready)
        self._traffic.evicted.labels(self._api).inc(facts.evicted_now)
        self.count_watched(facts)

    def count_watched(self, facts: Facts) -> None:
        """Count the view of a request, which a watching proxy has passed on unchanged."""
        self.facts = facts
        self._traffic.view.labels(self._api).observe(facts.view)
        self._traffic.history.labels(self._api).observe(facts.history)

    def paid_again(self, rewritten: RewrittenPrefix | None) -> None:
        """Count tokens that a round paid again although the provider had cached them."""
        if rewritten is not None:
            cause = rewritten.explanation.cause
            self._traffic.rewritten.labels(self._api, cause).inc(rewritten.tokens)
            self._traffic.rewritten_dollars.labels(self._api, cause).inc(rewritten.dollars or 0.0)

    def round(self, round_: Round, model: str) -> None:
        """Count a round of a managed request for a model."""
        round_ = round_.with_bill(model)
        traffic, api, usage, bill = self._traffic, self._api, round_.usage, round_.bill
        traffic.rounds.labels(api).inc()
        if usage is not None and bill is not None:
            self.used += usage
            self.largest = max(self.largest, usage.of_request.input)
            traffic.dollars.labels(api).inc(bill.at_least)
            if self.facts is not None and self.facts.parent:
                traffic.agent_dollars.labels(api).inc(bill.at_least)
            for kind in ("input", "output", "cache_read", "cache_write"):
                traffic.tokens.labels(api, kind).inc(getattr(usage, kind))

    def upstream_error(self, what: int | UpstreamFault) -> None:
        """Count a failed upstream request, by the provider's HTTP status or, if there is none, the fault."""
        labelled = what in get_args(UpstreamFault) or (isinstance(what, int) and 400 <= what < 600)
        self._traffic.faults.labels(self._api, str(what) if labelled else "other").inc()

    def fell_back(self, reason: str) -> None:
        """Count a request to the second upstream.

        The reason is the HTTP status of the first one, `connect` or `timeout`, or `down` if it was not asked.
        """
        self._traffic.fallbacks.labels(self._api, reason).inc()

    def failed_open(self) -> None:
        """Count a failure of Wane, after which the request is passed on unchanged."""
        self.outcome = "failed_open"
        self._traffic.fail_opens.labels(self._api).inc()

    def count_sent(self, size: int) -> None:
        """Count bytes of the reply's body; the first of them end the time to the first byte."""
        if size and not self._out:
            self._traffic.first.labels(self._api).observe(self._traffic.clock() - self._ready)
        self._out += size

    def log(self, status: int) -> None:
        """Write the line of the access log, with the HTTP status that the client got; 0 for none."""
        parts = [self.what, str(status or "-")]
        if self.owner:
            parts.insert(0, self.owner)
        if (facts := self.facts) is not None and self.outcome != "failed_open":
            over = "" if facts.satisfied else " over"
            parts.append(f"{facts.session} view {facts.view}/{facts.budget}{over} evicted {facts.evicted}")
            parts.append(f"rounds {self.rounds}")
        took = (self._traffic.clock() - self._started) * 1000
        ACCESS.info("%s %s %.0f ms", " ".join(parts), self.outcome, took)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Count the request's outcome, duration and bytes."""
        traffic = self._traffic
        api = self._api
        facts = self.facts
        now = traffic.clock()
        if facts is not None:
            view = self.largest if plausible(self.largest, facts.view) else facts.view
            traffic.peak = max(traffic.peak, view)
            if traffic.telemetry is not None:
                took = now - self._ready
                begun = time.time_ns() - round(took * 1e9)
                traffic.telemetry.record(facts, self.outcome, begun, took, self.rounds, self.used)
        traffic.open.labels(api).dec()
        traffic.requests.labels(api, self.outcome).inc()
        traffic.whole.labels(api).observe(now - self._started)
        traffic.bytes.labels(api, "in").inc(self._in)
        traffic.bytes.labels(api, "out").inc(self._out)


class _Collected:
    """Stands in for a registry in `generate_latest`."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def as_text(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus' text format (version 0.0.4)."""
    return generate_latest(_Collected(metrics))


def _samples(of: MetricWrapperBase) -> Iterable[Sample]:
    """Yield the present values of a metric, by its labels."""
    for metric in of.collect():
        for sample in metric.samples:
            if not sample.name.endswith("_created"):
                yield sample
