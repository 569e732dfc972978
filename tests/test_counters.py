"""Token counters by name."""

import pytest

import wane
from wane.counters import get_counter

tiktoken = pytest.importorskip("tiktoken", reason='needs the "tiktoken" extra')


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 8, 2)])
def test_chars_rounds_up_and_counts_characters(text: str, tokens: int) -> None:
    assert get_counter("chars")(text) == tokens


def test_tiktoken_counts_with_a_vocabulary_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256}
    tiny = tiktoken.Encoding("tiny", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={"<|end|>": 257})
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "tiny", tiny)
    count = get_counter("tiktoken:tiny")
    assert count("abab") == 2
    # Text that spells a special token is still text.
    assert count("<|end|>") == 7


def test_tiktoken_without_its_vocabulary_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    # A proxy that refuses at once stands for a machine without the network.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, "o200k_base", raising=False)
    with pytest.raises(wane.CounterError, match=r"TIKTOKEN_CACHE_DIR.*`chars`"):
        get_counter("tiktoken")


def test_an_encoding_that_does_not_exist_is_a_counter_error() -> None:
    with pytest.raises(wane.CounterError, match=r"tiktoken does not know the encoding 'no-such'; known: .*o200k_base"):
        get_counter("tiktoken:no-such")


def test_a_download_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    import socket

    from wane import counters

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, "o200k_base", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(counters, "LOAD_SECONDS", 0.3)
        with pytest.raises(wane.CounterError, match="no answer within"):
            get_counter("tiktoken")


def test_an_unknown_counter_names_the_known() -> None:
    with pytest.raises(wane.ConfigError, match="chars, tiktoken"):
        get_counter("words")


def test_what_is_no_counter_is_refused() -> None:
    with pytest.raises(wane.ConfigError, match="counter is 5; it must be a counter's name, or a function"):
        wane.plan([], budget=10, counter=5)  # type: ignore[arg-type]


def test_plan_takes_a_tuple_of_messages() -> None:
    assert wane.plan(({"role": "user", "content": "one"},), budget=10).satisfied


def test_plan_takes_a_function_as_counter() -> None:
    plan = wane.plan([{"role": "user", "content": "one two three"}], budget=10, counter=lambda text: len(text.split()))
    assert plan.to_dict()["tokens"]["before"] == 3
