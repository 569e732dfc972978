"""What can go wrong with a request, as exceptions between the server's parts."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import httpx2

from wane.core.errors import WaneError
from wane.proxy.server.traffic import UpstreamFault


class RefusedError(Exception):
    """A request that the proxy answers with an error of its own.

    Args:
        status: the HTTP status.
        message: what the client is told.
        close: whether the connection must end, as what follows on it is not known.
    """

    def __init__(self, status: int, message: str, *, close: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.close = close


class ClientGoneError(Exception):
    """The client has gone away, or takes nothing any more."""


class BrokenOffError(Exception):
    """A reply has broken off after its beginning went to the client: the connection is to end without an end."""


class OwnFailureError(Exception):
    """Something in Wane has failed: `__cause__` says what."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the provider could not be asked.

    Attributes:
        kind: what happened, for metrics.
        status: the HTTP status that tells a client.
        message: what the client is told. It holds nothing of the request.
    """

    kind: UpstreamFault
    status: int
    message: str


def fault_of(error: httpx2.HTTPError, provider: str) -> Fault:
    """Return what an error of the HTTP client means.

    Args:
        error: the error; its text may hold headers, and is not used.
        provider: what the provider is called: scheme and host.
    """
    if isinstance(error, httpx2.PoolTimeout):
        return Fault("timeout", 504, f"no connection to {provider} was free in time")
    if isinstance(error, httpx2.ConnectTimeout):
        return Fault("timeout", 504, f"{provider} could not be reached in time")
    if isinstance(error, httpx2.TimeoutException):
        return Fault("timeout", 504, f"{provider} did not answer in time")
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return Fault("connect", 502, f"{provider} could not be reached")
    if isinstance(error, httpx2.LocalProtocolError):
        return Fault("malformed", 502, f"the request could not be sent to {provider}: it is not proper HTTP")
    return Fault("reset", 502, f"{provider} closed the connection before it had answered")


def detail(error: BaseException) -> str:
    """Return an error for the log: where it was raised, too, if it is a defect and not one of Wane's own errors."""
    return str(error) if isinstance(error, WaneError) else "".join(traceback.format_exception(error)).rstrip()


def told(error: BaseException) -> str:
    """Return an error for the log and a header: its text if it is one of Wane's own, or else its kind alone."""
    return str(error) if isinstance(error, WaneError) else type(error).__name__
