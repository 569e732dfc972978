"""Traces and metrics of model requests for OpenTelemetry (extra `otel`), in its conventions for generative AI.

OpenTelemetry's own environment variables configure them. Spans have sizes, counts and names, never content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from wane.core.errors import MissingExtraError
from wane.prices import TokenUsage
from wane.proxy.sessions.memory import Facts

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
_TOKENS: Final = tuple(4.0**power for power in range(14))
_SECONDS: Final = tuple(0.01 * 2.0**power for power in range(14))


class Telemetry:
    """Records spans and measurements of model requests."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider) -> None:
        self._tracer = tracers.get_tracer("wane.proxy")
        meter = meters.get_meter("wane.proxy")
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of model requests.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Time of model requests.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def record(self, facts: Facts, outcome: str, begun: int, seconds: float, rounds: int, used: TokenUsage) -> None:
        """Record a managed request at its end.

        Args:
            facts: figures of its view.
            outcome: how it ended (`RequestCounters.outcome`).
            begun: when its body was complete, in nanoseconds since 1970.
            seconds: how long it took from then on.
            rounds: how many requests were sent to the provider's model.
            used: their usage, as the provider reported it.
        """
        from opentelemetry.trace import SpanKind, StatusCode

        names: dict[str, str] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": facts.provider,
            "gen_ai.request.model": facts.model,
        }
        sizes: dict[str, str | int] = {
            "gen_ai.conversation.id": facts.session,
            "wane.view.tokens": facts.view,
            "wane.budget.tokens": facts.budget,
            "wane.history.tokens": facts.history,
            "wane.evicted.tokens": facts.evicted_now,
            "wane.rounds": rounds,
        }
        if used.input:
            sizes |= {
                "gen_ai.usage.input_tokens": used.input,
                "gen_ai.usage.output_tokens": used.output,
                "gen_ai.usage.cache_read.input_tokens": used.cache_read,
                "gen_ai.usage.cache_creation.input_tokens": used.cache_write,
            }
        failed = outcome != "managed"
        if failed:
            names["error.type"] = outcome
        attributes = {**names, **sizes}
        span = self._tracer.start_span(
            f"chat {facts.model}", kind=SpanKind.CLIENT, attributes=attributes, start_time=begun
        )
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(begun + round(seconds * 1e9))
        if used.input:
            self._usage.record(used.input, {**names, "gen_ai.token.type": "input"})
            self._usage.record(used.output, {**names, "gen_ai.token.type": "output"})
        self._duration.record(seconds, names)


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables ask for traces and metrics."""
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not off and any(environ.get(name, "").strip() for name in _ENDPOINTS)


@contextmanager
def exporting(environ: Mapping[str, str]) -> Iterator[Telemetry | None]:
    """Yield telemetry that is exported by OTLP over HTTP and flushed at the end; None if no variable asks for it.

    Raises:
        MissingExtraError: without the extra `otel`.
    """
    if not is_wanted(environ):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtraError("OpenTelemetry", "otel") from None
    resource = Resource.create()
    # A name from the variables overrides our own.
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "wane-proxy"}))
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)
    try:
        yield Telemetry(tracers, meters)
    finally:
        tracers.shutdown()
        meters.shutdown()
