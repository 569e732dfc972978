"""What can go wrong with a request, as exceptions between the parts of the server."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import httpx2

from wane.core.errors import WaneError
from wane.proxy.server.traffic import UpstreamFault


class RefusedError(Exception):
    """The proxy answers the request with an error of its own.

    Args:
        status: the HTTP status.
        message: the error for the client.
        close: whether to close the connection, because what follows on it is unknown.
    """

    def __init__(self, status: int, message: str, *, close: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.close = close


class ClientGoneError(Exception):
    """The client has disconnected, or no longer reads."""


class BrokenOffError(Exception):
    """A reply broke off after it had started; the connection must be closed without ending the reply."""


class OwnFailureError(Exception):
    """Something in Wane failed; `__cause__` is the error."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request to the provider failed.

    Attributes:
        kind: what happened, for metrics.
        status: the HTTP status for the client.
        message: the error for the client; it holds nothing of the request.
    """

    kind: UpstreamFault
    status: int
    message: str


def fault_of(error: httpx2.HTTPError, provider: str) -> Fault:
    """Return the fault for an error of the HTTP client.

    Args:
        error: the error; its text may hold headers, so it is not used.
        provider: the provider's scheme and host.
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
        return Fault("malformed", 502, f"the request could not be sent to {provider}: it is not valid HTTP")
    return Fault("reset", 502, f"{provider} closed the connection before it answered")


def detail(error: BaseException) -> str:
    """Return an error for the log: the message of one of Wane's own errors, the traceback of any other."""
    return str(error) if isinstance(error, WaneError) else "".join(traceback.format_exception(error)).rstrip()


def brief(error: BaseException) -> str:
    """Return an error in a few words: the message of one of Wane's own errors, the type of any other."""
    return str(error) if isinstance(error, WaneError) else type(error).__name__
