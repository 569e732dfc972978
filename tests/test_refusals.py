"""What providers say of a prompt that is too long calibrates the budget."""

from __future__ import annotations

import pytest

from wane.refusals import TOO_LONG, fitting_budget, message_of, provider_message


@pytest.mark.parametrize(
    ("message", "tokens", "budget"),
    [
        ("prompt is too long: 215,000 tokens > 200000 maximum", 100_000, 83_720),
        ("This model's maximum context length is 4096 tokens. However, your messages resulted in 8192", 4000, 1800),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 100_000, 85_263),
        ("Your input exceeds the context window of this model.", 1000, 800),
        # What fills the window is not in the view, so a smaller one would not help.
        ("Prompt is too long: 210000 > 200000", 3_478, None),
        ("the request exceeds the available context size, try increasing it: 5000 tokens > 4096", 4000, 2949),
        (
            "maximum context length is 100 tokens. However, you requested 125 tokens (120 in the messages, 5 in",
            1000,
            720,
        ),
        (
            "max_tokens: 8192. The maximum context length is 32768, the request has 30720 (8192 > 32768 - 30720)",
            10_000,
            7_200,
        ),
        ("request (5000 tokens) exceeds the available context size (4000 tokens), try increasing it", 2000, 1440),
        ("Prompt contains 40000 tokens, too large for model with 32000 maximum context length", 10_000, 7_200),
        ("", 1000, 800),
        # vLLM: it counts no further than to the first token that is too many, so its count is only a bound.
        (
            (
                "This model's maximum context length is 32768 tokens. However, you requested 8192 output tokens and"
                " your prompt contains at least 24577 input tokens, for a total of at least 32769 tokens."
            ),
            60_000,
            22_118,
        ),
        ("This model's maximum context length is 8192 tokens, but the prompt contains 9000 input tokens", 6000, 4915),
        ("The prompt (total length 25938) is too long to fit into the model (context length 4096).", 20_000, 2842),
        (
            (
                "This model's maximum context length is 8192 tokens. However, you requested 1024 output tokens and your"
                " prompt contains 90000 characters (more than 81920 characters, the upper bound for 8192 input tokens)"
            ),
            20_000,
            6451,
        ),
        # An answer that is to fill the window: no smaller view helps.
        (
            (
                "'max_tokens' is too large: 8192. This model's maximum context length is 8192 tokens and your request"
                " has 1210 input tokens (8192 > 8192 - 1210)."
            ),
            1000,
            None,
        ),
        # SGLang
        (
            (
                "Requested token count exceeds the model's maximum context length of 262144 tokens. You requested a"
                " total of 267042 tokens: 201506 tokens from the input messages and 65536 tokens for the completion."
            ),
            180_000,
            158_062,
        ),
        ("The input (150000 tokens) is longer than the model's context length (128000 tokens).", 100_000, 76_800),
        # LM Studio
        (
            (
                "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with"
                " context length of only 7866 tokens, which is not enough."
            ),
            9000,
            6285,
        ),
        ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", 12_000, 5335),
        (
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            10_000,
            8000,
        ),
        # xAI, Kimi, GitHub Copilot
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens", 400_000, 87_736),
        ("Your request exceeded model token limit: 262144 (requested: 300000)", 250_000, 196_608),
        ("prompt token count of 200000 exceeds the limit of 128000", 150_000, 86_400),
    ],
)
def test_the_providers_count_calibrates_the_budget(message: str, tokens: int, budget: int | None) -> None:
    assert not message or TOO_LONG.search(message)
    assert fitting_budget(message, tokens) == budget


LLAMA = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4096}


class _ApiError(Exception):
    """An error of an SDK, with the provider's body."""

    def __init__(self, body: object) -> None:
        super().__init__("Error code: 400")
        self.body = body


@pytest.mark.parametrize(
    "error",
    [
        b'{"error": {"message": "exceeds the available context size", "n_prompt_tokens": 5000, "n_ctx": 4096}}',
        {"error": {**LLAMA, "message": "the request exceeds the available context size"}},
        _ApiError({**LLAMA, "message": "request (5000 tokens) exceeds the available context size (4096 tokens)"}),
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "the request exceeds the available context size: 5000 tokens > 4096",
    ],
)
def test_a_clients_error_is_read_in_any_form(error: object) -> None:
    assert fitting_budget(message_of(error), 4000) == 2949


def test_an_error_without_a_message_is_read_too() -> None:
    assert provider_message(None) == "no reason was given"
    assert message_of(b"\xff not JSON") == "\N{REPLACEMENT CHARACTER} not JSON"
