"""No model is asked any more once what may be spent is spent."""

from __future__ import annotations

import pytest

from tests.proxy.server.support import ask, body, message, provider, proxy, response, run
from tests.proxy.server.test_managed import replies
from wane.core.errors import ConfigError
from wane.money import dollars
from wane.prices import Prices
from wane.proxy.settings import Address, ServerSettings, UpstreamUrl

MODEL = "claude-sonnet-4-5"
SAID = response(message("hi", usage={"input_tokens": 100_000, "output_tokens": 0}))


def test_requests_are_refused_once_the_limit_is_reached() -> None:
    each = 100_000 * Prices.of(MODEL).tiers[0].input

    async def main() -> None:
        async with provider(replies(SAID)) as up, proxy(up.url, max_cost=1.5 * each) as running:
            answers = [await ask(running, body(stream=False, model=MODEL)) for _ in range(4)]
            assert [answer.status for answer in answers] == [200, 200, 402, 402]
            error = answers[2].json["error"]
            spent, allowed = dollars(2 * each), dollars(1.5 * each)
            assert error["message"] == f"{spent} has been spent, and --max-cost allows {allowed}"
            assert len(up.asked) == 2
            assert running.traffic.spent == pytest.approx(2 * each)
            # What costs nothing is still served.
            assert (await ask(running, path="/wane/status", method="GET")).status == 200

    run(main)


def test_a_model_without_a_price_is_refused_where_there_is_a_limit() -> None:
    async def main() -> None:
        async with provider(replies(SAID)) as up, proxy(up.url, max_cost=1.0) as limited, proxy(up.url) as free:
            answer = await ask(limited, body(stream=False, model="no-such-model"))
            assert answer.status == 402
            assert "the price of the model 'no-such-model' is unknown" in answer.json["error"]["message"]
            assert (await ask(free, body(stream=False, model="no-such-model"))).status == 200

    run(main)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be above 0"):
        ServerSettings(UpstreamUrl.parse("http://127.0.0.1:1"), Address("127.0.0.1", 0), max_cost=0.0)
