"""Traces and metrics of model requests for OpenTelemetry (extra `otel`), by its conventions for generative AI.

OpenTelemetry's own environment variables configure it. Spans have sizes, counts and names, never content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from wane.core.errors import MissingExtraError
from wane.proxy.sessions.base import Facts
from wane.proxy.wire.rounds import NO_USAGE, Round, TokenUsage

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.trace import Span, TracerProvider

_PROVIDERS: Final = {"anthropic": "anthropic", "openai": "openai", "openai_responses": "openai"}
_ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
_TOKENS: Final = tuple(4.0**power for power in range(14))
_SECONDS: Final = tuple(0.01 * 2.0**power for power in range(14))


class Telemetry:
    """Records spans and measurements of model requests.

    Args:
        tracers: makes the tracer.
        meters: makes the meter.
    """

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

    def begin(self, facts: Facts, nanoseconds: int) -> ModelSpan:
        """Begin the span of a managed request.

        Args:
            facts: figures of its view.
            nanoseconds: when its body was complete, since 1970.
        """
        names: dict[str, str] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(facts.api, facts.api),
            "gen_ai.request.model": facts.model,
        }
        sizes: dict[str, str | int] = {
            "gen_ai.conversation.id": facts.session,
            "wane.view.tokens": facts.view,
            "wane.budget.tokens": facts.budget,
            "wane.history.tokens": facts.history,
            "wane.evicted.tokens": facts.evicted_now,
        }
        from opentelemetry.trace import SpanKind

        span = self._tracer.start_span(
            f"chat {facts.model}", kind=SpanKind.CLIENT, attributes={**names, **sizes}, start_time=nanoseconds
        )
        return ModelSpan(self, span, names)

    def measure(self, names: Mapping[str, Any], usage: TokenUsage, seconds: float) -> None:
        """Record the tokens and the time of a request."""
        for kind, tokens in (("input", usage.input), ("output", usage.output)):
            if usage.input:
                self._usage.record(tokens, {**names, "gen_ai.token.type": kind})
        self._duration.record(seconds, names)


class ModelSpan:
    """The span of one request of a client, with all its rounds upstream."""

    def __init__(self, telemetry: Telemetry, span: Span, names: Mapping[str, Any]) -> None:
        self._telemetry, self._span, self._names = telemetry, span, names
        self._used = NO_USAGE
        self._rounds = 0

    def round(self, round_: Round) -> None:
        """Count a round."""
        self._rounds += 1
        self._used += round_.usage or NO_USAGE

    def end(self, outcome: str, seconds: float) -> None:
        """End the span.

        Args:
            outcome: how the request ended (`Exchange.outcome`).
            seconds: how long it took.
        """
        from opentelemetry.trace import StatusCode

        used, span = self._used, self._span
        span.set_attribute("wane.rounds", self._rounds)
        if used.input:
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": used.input,
                    "gen_ai.usage.output_tokens": used.output,
                    "gen_ai.usage.cache_read.input_tokens": used.cache_read,
                    "gen_ai.usage.cache_creation.input_tokens": used.cache_write,
                }
            )
        names = dict(self._names)
        if outcome != "managed":
            names["error.type"] = outcome
            span.set_attribute("error.type", outcome)
            span.set_status(StatusCode.ERROR)
        span.end()
        self._telemetry.measure(names, used, seconds)


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables ask for traces and metrics."""
    off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not off and any(environ.get(name, "").strip() for name in _ENDPOINTS)


def providers() -> tuple[SdkTracerProvider, SdkMeterProvider]:
    """Return exporters by OTLP over HTTP, configured by OpenTelemetry's variables. Shut them down at the end.

    Raises:
        MissingExtraError: without the extra `otel`.
    """
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
    return tracers, MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)
