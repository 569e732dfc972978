"""Traces and metrics for OpenTelemetry: what they hold, and that they reach a collector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.proxy.server.support import KEY, ask, body, message, provider, proxy, response
from tests.proxy.server.test_command import wane_proxy
from tests.proxy.server.test_managed import replies
from wane.proxy.telemetry import Telemetry, is_wanted

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

USAGE = {"input_tokens": 100, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 50, "output_tokens": 7}
SAID = response(message("hi", usage=USAGE))


async def test_spans_and_metrics_follow_the_conventions_and_hold_nothing_that_was_said() -> None:
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracers, MeterProvider([metrics]))

    refused = response(b'{"type":"error","error":{"type":"api_error","message":"no"}}', 500)
    async with provider(replies(SAID, refused)) as up, proxy(up.url, telemetry=telemetry) as running:
        for _ in range(2):
            await ask(running, body("a secret word", stream=False, model="claude-sonnet-5"))
        await ask(running, path="/v1/models", method="GET")
    said, failed = spans.get_finished_spans()
    assert (said.name, said.kind) == ("chat claude-sonnet-5", SpanKind.CLIENT)
    known = dict(said.attributes or {})
    assert known.pop("gen_ai.conversation.id")
    assert known.pop("wane.view.tokens") == known.pop("wane.history.tokens")
    assert known == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-5",
        "gen_ai.usage.input_tokens": 950,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 800,
        "gen_ai.usage.cache_creation.input_tokens": 50,
        "wane.budget.tokens": 80_000,
        "wane.evicted.tokens": 0,
        "wane.rounds": 1,
    }
    assert said.start_time is not None
    assert said.end_time is not None
    assert said.end_time > said.start_time
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "provider_error"
    assert "secret" not in "".join(span.to_json() for span in (said, failed))
    (resource,) = metrics.get_metrics_data().resource_metrics  # type: ignore[union-attr]
    told = {metric.name: list(metric.data.data_points) for metric in resource.scope_metrics[0].metrics}
    usage = {point.attributes["gen_ai.token.type"]: point.sum for point in told["gen_ai.client.token.usage"]}
    assert usage == {"input": 950, "output": 7}
    assert sum(point.count for point in told["gen_ai.client.operation.duration"]) == 2


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
    ],
)
def test_the_standard_variables_decide(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ) is wanted


class Collector:
    """Takes what is exported by OTLP over HTTP."""

    def __init__(self) -> None:
        self.got: dict[str, list[bytes]] = {}
        got = self.got

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                got.setdefault(self.path, []).append(data)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    it = Collector()
    thread = threading.Thread(target=it.server.serve_forever, daemon=True)
    thread.start()
    yield it
    it.server.shutdown()
    it.server.server_close()
    thread.join()


@pytest.mark.full
async def test_a_real_proxy_exports_by_otlp(collector: Collector) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "ours"}
    async with provider(replies(SAID)) as up, wane_proxy(up.url, "--no-store", **environ) as it:
        assert (await ask(it, body(stream=False))).status == 200
        it.process.terminate()
        code, _, said = await it.end()
        assert (code, "Traceback" in said) == (0, False)
    traces = [ExportTraceServiceRequest.FromString(data) for data in collector.got["/v1/traces"]]
    metrics = [ExportMetricsServiceRequest.FromString(data) for data in collector.got["/v1/metrics"]]
    names = [span.name for it in traces for of in it.resource_spans for scope in of.scope_spans for span in scope.spans]
    assert len(names) == 1
    (resource,) = (of.resource for it in traces for of in it.resource_spans)
    assert {it.key: it.value.string_value for it in resource.attributes}["service.name"] == "ours"
    assert metrics
    assert KEY not in repr(collector.got)
