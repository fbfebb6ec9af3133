"""The connection to an OpenSearch cluster: its URL, its errors in our terms, and bulk requests that succeed entirely.

    opensearch:https://user:password@host:9200/NAME?shards=3&replicas=1

Several hosts are separated by commas. Certificates are verified against the system's authorities, or those in the file
that `ca=PATH` names. Plain `http:` is for a machine's own loopback and private networks.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from opensearchpy import OpenSearch, Urllib3HttpConnection
from opensearchpy import exceptions as library

from indexer.settings import masked
from overlay.engines import BusyError, EngineError, UnavailableError, UnknownEngineError

TIMEOUT = 20
"""Seconds that a request may take."""
RETRIES = 3
"""Requests repeated at most, on another host where there is one; all of them are idempotent or conditional."""
BULK_BYTES = 4 << 20
_MAJORS = ("2", "3")
_OPTIONS = {"shards": "1", "replicas": "1", "ca": "", "lease": "30"}
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})

Json = dict[str, Any]

logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # what fails is raised here, and a 404 is no failure


class ConflictError(BusyError):
    """A conditional write lost: another process has written the document meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A cluster, and the name under which it holds our index. `lease` is how long a writer may be silent, in seconds,
    before another one takes over."""

    client: OpenSearch
    name: str
    shown: str
    shards: int
    replicas: int
    lease: float

    @classmethod
    def connect(cls, place: str) -> Cluster:
        """The cluster that a URL names, without its scheme `opensearch:`. Raises UnknownEngineError; EngineError or
        UnavailableError when it cannot be used."""
        shown = masked(f"opensearch:{place}")
        try:
            cluster = _configured(place, shown)
        except (ValueError, OSError) as error:
            raise UnknownEngineError(
                f"{shown!r} names no index: use opensearch:https://USER:PASSWORD@HOST:9200/NAME?shards=1&replicas=1 "
                f"({masked(str(error))})"
            ) from None
        cluster.check_version()
        return cluster

    def check_version(self) -> None:
        """Raises EngineError when it is no OpenSearch that we know."""
        version = self.request("GET", "/").get("version") or {}
        distribution, number = version.get("distribution"), str(version.get("number", "unknown"))
        if distribution != "opensearch" or number.split(".", maxsplit=1)[0] not in _MAJORS:
            raise EngineError(
                f"{self.shown} is {distribution or 'no OpenSearch'} {number[:40]}: OpenSearch 2 or 3 is needed"
            )

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Json:
        """Make a request; the JSON object of the answer. Raises NotFoundError of the library, ConflictError,
        UnavailableError, EngineError."""
        with self._translated():
            found = self.client.transport.perform_request(method, path, params=params or None, body=body)
        if not isinstance(found, dict):
            raise UnavailableError(f"{self.shown} answers {method} {path} with no JSON object")
        return cast("Json", found)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except library.ConnectionError as error:
            raise UnavailableError(f"{self.shown} does not answer: {masked(str(error.info))[:300]}") from error
        except library.NotFoundError:
            raise
        except library.TransportError as error:
            raise self.error(error.status_code, error.error, error.info) from error
        except library.SerializationError as error:
            raise UnavailableError(f"{self.shown} answers with no JSON: {str(error)[:100]}") from error

    def error(self, status: int | str, kind: str, info: Any) -> EngineError:
        """What an answer with an error status means."""
        said = f"{kind} {_reason(info)}"[:300]
        if status == 409:
            return ConflictError(f"{self.shown} was written by another process meanwhile")
        if "cluster_block" in said:
            return UnavailableError(f"{self.shown} is read-only: {said}")
        if status == 429:
            return UnavailableError(f"{self.shown} is overloaded (429): {said}")
        if status in _TRANSIENT:
            return UnavailableError(f"{self.shown} cannot answer now ({status}): {said}")
        if status in (401, 403):
            return EngineError(f"{self.shown} refuses these credentials ({status}): {said}")
        return EngineError(f"{self.shown} refuses a request ({status}): {said}")

    def search(self, index: str, body: Json) -> Json:
        """Search an index; never a part of its shards alone."""
        return self.request("POST", f"/{index}/_search", body, allow_partial_search_results="false")

    def bulk(self, index: str, actions: Iterable[Sequence[Json]]) -> None:
        """Carry out all actions, each an action line and its source, in requests of bounded size. Raises what the first
        one that failed means; which of the others succeeded is then not known."""
        lines: list[str] = []
        size = 0
        for action in actions:
            text = "".join(json.dumps(part, separators=(",", ":")) + "\n" for part in action)
            if lines and size + len(text) > BULK_BYTES:
                self._send(index, lines)
                lines, size = [], 0
            lines.append(text)
            size += len(text)
        if lines:
            self._send(index, lines)

    def _send(self, index: str, lines: list[str]) -> None:
        for attempt in range(RETRIES + 1):
            items = self.request("POST", f"/{index}/_bulk", "".join(lines))["items"]
            results = [next(iter(item.values())) for item in items]
            failed = [at for at, result in enumerate(results) if "error" in result]
            if not failed:
                return
            first = results[failed[0]]
            refused = self.error(first["status"], first["error"].get("type", ""), first)
            if attempt == RETRIES or any(results[at]["status"] != 429 for at in failed):
                raise refused
            lines = [lines[at] for at in failed]
            sleep(0.2 * 2**attempt)

    def refresh(self, index: str) -> None:
        """Let searches see all that was written."""
        shards = self.request("POST", f"/{index}/_refresh")["_shards"]
        if shards["failed"]:
            raise UnavailableError(f"{self.shown}: {shards['failed']} of {shards['total']} shards cannot be read now")


def _configured(place: str, shown: str) -> Cluster:
    parts = urlsplit(place)
    given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.fragment or not given.keys() <= set(_OPTIONS):
        raise ValueError(f"the options are {', '.join(_OPTIONS)}")
    options = _OPTIONS | given
    name = parts.path.strip("/")
    if not name or name != name.lower() or not name.replace("-", "a").replace("_", "a").isalnum() or len(name) > 200:
        raise ValueError("NAME consists of lower-case letters, digits, - and _")
    user, _, places = parts.netloc.rpartition("@")
    if options["ca"]:
        ssl.create_default_context(cafile=options["ca"])  # named when it cannot be read
    client = OpenSearch(
        [_host(parts.scheme, each) for each in places.split(",")],
        http_auth=tuple(map(unquote, user.partition(":")[::2])) if user else None,
        connection_class=Urllib3HttpConnection,
        verify_certs=True,
        ca_certs=options["ca"] or None,
        timeout=TIMEOUT,
        max_retries=RETRIES,
        retry_on_timeout=True,
        retry_on_status=(502, 503, 504),
        pool_maxsize=32,
    )
    return Cluster(
        client, name, shown, _number(options, "shards", 1), _number(options, "replicas", 0), float(options["lease"])
    )


def _host(scheme: str, place: str) -> Json:
    parts = urlsplit(f"//{place}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return {"host": parts.hostname, "port": parts.port or 9200, "use_ssl": scheme == "https"}


def _number(options: Mapping[str, str], name: str, least: int) -> int:
    number = int(options[name])
    if not least <= number <= 100:
        raise ValueError(f"{name} is a number from {least} to 100")
    return number


def _reason(info: Any) -> str:
    error = info.get("error") if isinstance(info, dict) else info
    return masked(str(error.get("reason", "") if isinstance(error, dict) else error or ""))
