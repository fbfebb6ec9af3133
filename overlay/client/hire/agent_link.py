"""A connection to an agent's endpoint, for calls that carry a payment claim: to public addresses by https alone, never
redirected, and bounded in bytes and time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import NamedTuple

import httpx

from indexer import http_body, public_addresses
from parsers.local_hosts import is_public_url

MAX_ANSWER = 64 << 20
"""Bytes of an answer, decoded."""

_HEADERS = {"User-Agent": "a2b-registry", "Accept": "application/json, text/event-stream", "Accept-Encoding": "gzip"}


class EndpointError(Exception):
    """An endpoint that is not called: another scheme or address than is allowed, or a redirect."""


class UnreachableError(Exception):
    """No answer came: the agent may have got the call, or not."""


class HttpReply(NamedTuple):
    """The status, the headers (names in lower case) and the body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class AgentLink:
    """Posts to one endpoint. `allow_local`: http and private addresses too, for test networks. `seconds` bounds a whole
    answer. Use it with `async with`."""

    def __init__(self, url: str, *, allow_local: bool = False, seconds: float = 900.0) -> None:
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise EndpointError(f"{url[:200]!a} is not a URL: {error}") from None
        if not self._url.host or (self._url.scheme != "https" and not (allow_local and self._url.scheme == "http")):
            raise EndpointError(f"{url[:200]!a} is not called: only https URLs are")
        if not allow_local and not is_public_url(url):
            raise EndpointError(f"{url[:200]!a} is not called: its host is not a public one")
        if self._url.userinfo:
            raise EndpointError(f"{self._url.host} is not called: its URL has a name and password")
        self._allow_local, self._seconds = allow_local, seconds
        self._http = httpx.AsyncClient(headers=_HEADERS, timeout=httpx.Timeout(30.0, read=seconds), trust_env=False)

    async def __aenter__(self) -> AgentLink:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> HttpReply:
        """The answer to a body. Raises EndpointError, UnreachableError."""
        target, host = await self._pinned(), self._url.netloc.decode("ascii")
        url = self._url.copy_with(host=target)
        request = self._http.build_request("POST", url, content=body, headers={**headers, "Host": host})
        request.extensions["sni_hostname"] = self._url.host
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._http.send(request, stream=True)
                try:
                    return await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise UnreachableError(f"{host} does not answer within {self._seconds:g} s") from None
        except (httpx.HTTPError, http_body.BodyError) as error:
            raise UnreachableError(f"{host}: {str(error) or type(error).__name__}") from None

    async def _read(self, response: httpx.Response) -> HttpReply:
        if response.is_redirect:
            raise EndpointError(f"{self._url.host} redirects the call, and a claim is sent to no other address")
        bounds = http_body.Bounds(MAX_ANSWER)
        body = await http_body.read(response.aiter_raw(), response.headers.multi_items(), bounds)
        return HttpReply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)

    async def _pinned(self) -> str:
        """An address of the host, which is connected to as it was checked: a name may change its addresses."""
        loop, port = asyncio.get_running_loop(), self._url.port or (443 if self._url.scheme == "https" else 80)
        try:
            found_addresses = await loop.getaddrinfo(self._url.host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"{self._url.host} has no address: {error}") from None
        addresses = [str(entry[4][0]) for entry in found_addresses]
        usable = [text for text in addresses if self._allow_local or _is_public(text)]
        if not usable:
            raise EndpointError(f"{self._url.host} is not called: its address {addresses[0]} is not a public one")
        return usable[0]


def _is_public(text: str) -> bool:
    address = public_addresses.read(text)
    return address is not None and public_addresses.refused(address) is None
