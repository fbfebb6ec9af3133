"""JSON-RPC 2.0 over HTTP, as endpoints of EVM chains and Solana use it: one call per request.

Most endpoints have a key in their URL; it is a secret.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from indexer.chains.http_client import (
    RESPONSE_BYTES,
    CutError,
    HttpClient,
    SlowError,
    TooLargeError,
    basic_login,
    login_secrets,
    parse_json,
)
from indexer.chains.options import web_address
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from indexer.masking import masked
from parsers.errors import ParseError
from parsers.json_records import ABSENT, JsonObject, convert

METHOD_NOT_FOUND = -32601

_RATE_LIMITED = re.compile(
    r"rate limit|request rate|too many requests|requests per|per second|throughput|credits|quota|daily|try again later",
    re.IGNORECASE,
)
"""How endpoints report a rate limit, each in its own words and codes."""

_TIMEOUT_STATUSES = frozenset({408, 504, 522, 524})


class RpcError(SourceUnavailableError):
    """An error response to a call: its code (0 without one) and message. `server` names the server. A caller that
    expects no error may retry later."""

    def __init__(self, name: str, server: str, method: str, code: int, message: str) -> None:
        super().__init__(f"{name}: {server} refuses {method}: {message} (code {code})")
        self.code, self.message = code, message


class RpcResponse(JsonObject):
    """The response to one call; of another value it has no member."""

    id: Any = None
    result: Any = ABSENT
    error: Any = None


def error_fields(error: Any) -> tuple[int, str]:
    """Code and message (at most 500 characters) of the `error` member of a JSON-RPC response."""
    code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (0, error)
    return code if isinstance(code, int) else 0, str(message)[:500]


class JsonRpc(HttpClient):
    """The endpoint at a URL, which may hold a login. Raises SourceError for another text."""

    def __init__(self, name: str, url: str) -> None:
        parts = web_address(url)
        if parts is None or parts.fragment or any(ord(letter) <= 32 for letter in url):
            raise SourceError(
                f"{name}: its URL is not that of an endpoint; write https://host/path, and in a password @ as %40, "
                ": as %3A, / as %2F, ? as %3F, # as %23, % as %25"
            )
        shown = masked(url)
        secrets = [word for word in re.split(r"[/?&=:@]", url) if len(word) >= 8 and word not in shown]
        headers = {"Content-Type": "application/json"}
        if parts.username is not None:
            login = unquote(parts.username), unquote(parts.password or "")
            headers["Authorization"] = basic_login(*login)
            secrets = [*login_secrets(*login), *secrets]
        super().__init__(name, shown, headers=headers, secrets=secrets)
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    async def call(self, method: str, *params: Any, limit: int = RESPONSE_BYTES) -> Any:
        """The result of one call, in a response of at most `limit` bytes.

        Raises RpcError, TooLargeError, SlowError, SourceError.
        """
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return await self.retry(lambda: self._call_once(method, body, limit))

    async def _call_once(self, method: str, body: bytes, limit: int) -> Any:
        status, _, raw = await self.request("POST", self._url, limit, body, method)
        try:
            return self._result(method, status, convert(await parse_json(raw), RpcResponse))
        except ParseError as error:
            return self._result(method, status, RpcResponse(), f" ({error})")

    def _result(self, method: str, status: int, answer: RpcResponse, fault: str = "") -> Any:
        """The result in a response of any status: many endpoints send errors with other statuses than 200."""
        if answer.error is not None:
            raise self._error(method, status, answer.error)
        if status == 200 and answer.id == 1 and answer.result is not ABSENT:
            return answer.result
        if status in (401, 403):
            raise self._no_access(status, "")
        if status == 413:
            raise TooLargeError(f"{self.name}: {self.label} finds the answer to {method} too large ({status})")
        if status in _TIMEOUT_STATUSES:
            raise SlowError(f"{self.name}: {self.label} answers {method} with status {status}")
        if status == 429 or status >= 500:
            raise CutError(f"it answers {method} with status {status}")
        message = f"{self.name}: {self.label} answers {method} with status {status} and not as JSON-RPC does{fault}"
        if 300 <= status < 500:
            raise SourceRefusalError(f"{message}; is that the endpoint's whole URL, with its path and key?")
        raise SourceUnavailableError(message)

    def _error(self, method: str, status: int, error: Any) -> Exception:
        code, message = error_fields(error)
        message = self.redact(message)
        if status == 429 or code == 429 or _RATE_LIMITED.search(message):
            return CutError(f"its rate limit is reached: {message}")
        if status in (401, 403):
            return self._no_access(status, message)
        if status >= 500 and code == 0:
            return CutError(f"it answers {method} with status {status}: {message}")
        return RpcError(self.name, "the endpoint", method, code, message)

    def _no_access(self, status: int, message: str) -> SourceError:
        detail = f": {message}" if message else ""
        return SourceRefusalError(
            f"{self.name}: {self.label} refuses access ({status}{detail}); correct the key in its URL"
        )
