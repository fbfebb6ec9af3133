"""The part of aiohttp's client that `HttpClient` uses, made of httpx: for commands of an installation without the
server. A request takes four times the processor time."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx


class RequestFailedError(Exception):
    """A request that failed."""


ClientError = RequestFailedError


class InvalidURL(ClientError):  # noqa: N818 - the name in aiohttp
    """A URL that names no server."""


class ClientConnectorError(ClientError):
    """A server that cannot be reached: `os_error` is why."""

    def __init__(self, os_error: OSError) -> None:
        super().__init__(str(os_error))
        self.os_error = os_error


class ClientConnectorSSLError(ClientConnectorError):
    """A server without a common version of TLS."""


class ClientConnectorCertificateError(ClientConnectorError):
    """A server with a certificate that is not trusted."""

    @property
    def certificate_error(self) -> OSError:
        """Why it is not trusted."""
        return self.os_error


class TCPConnector(NamedTuple):
    """Connections at once."""

    limit: int


class ClientTimeout(NamedTuple):
    """Seconds: of a whole request (None: unlimited), to connect, and until the next bytes."""

    total: None
    sock_connect: float
    sock_read: float


class DummyCookieJar:
    """No cookies: of httpx only a session that is read again sends any."""


class ClientResponse:
    """A response whose body is not read yet."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status, self.reason, self.headers = response.status_code, response.reason_phrase, response.headers

    @property
    def content(self) -> ClientResponse:
        """Its body."""
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        """The pieces of the body as they arrive, in their content coding."""
        with _translated():
            async for piece in self._response.aiter_raw():
                yield piece

    def close(self) -> None:
        """Read no more; the connection is closed with the session."""

    async def __aenter__(self) -> ClientResponse:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._response.aclose()


class ClientSession:
    """Connections to servers. Nothing of the environment is used but `SSL_CERT_FILE` and `SSL_CERT_DIR`."""

    def __init__(
        self, *, connector: TCPConnector, timeout: ClientTimeout, headers: Mapping[str, str], **_: object
    ) -> None:
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(),
            limits=httpx.Limits(max_connections=connector.limit),
            timeout=httpx.Timeout(None, connect=timeout.sock_connect, read=timeout.sock_read),
            headers=headers,
            trust_env=False,
        )

    async def request(
        self, method: str, url: str, *, data: bytes | None, headers: Mapping[str, str], allow_redirects: bool
    ) -> ClientResponse:
        """Send a request and wait for the headers of its response."""
        with _translated():
            request = self._client.build_request(method, url, content=data, headers=headers)
            return ClientResponse(await self._client.send(request, stream=True, follow_redirects=allow_redirects))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the errors of httpx as those of aiohttp."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise InvalidURL(str(error)) from error
    except httpx.TimeoutException as error:
        raise TimeoutError(str(error)) from error
    except httpx.ConnectError as error:
        raise _unreachable(error) from error
    except httpx.TransportError as error:
        raise ClientError(str(error) or type(error).__name__) from error


def _unreachable(error: httpx.ConnectError) -> ClientConnectorError:
    """The error of the system that kept a connection from being opened."""
    cause: Any = error
    reason = OSError(0, str(error))
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ClientConnectorCertificateError(cause)
        if isinstance(cause, ssl.SSLError):
            return ClientConnectorSSLError(cause)
        if isinstance(cause, OSError) and cause.errno:
            reason = cause
        cause = cause.__cause__ or cause.__context__
    return ClientConnectorError(reason)
