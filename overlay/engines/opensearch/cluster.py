"""The connection to an OpenSearch cluster: its URL, its errors as EngineError, and all-or-error bulk requests.

    opensearch:https://user:password@host:9200/NAME?shards=3&replicas=1

Hosts are separated by commas. Certificates are verified against the system's authorities, or those in the file
`ca=PATH`. Plain `http:` is for loopback and private networks.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from opensearchpy import OpenSearch, Urllib3HttpConnection
from opensearchpy import exceptions as library
from opensearchpy.helpers import streaming_bulk

from indexer.masking import masked
from overlay.engines import BusyError, EngineError, UnavailableError, UnknownEngineError
from overlay.engines.opensearch.cluster_watch import ClusterWatch

TIMEOUT = 20
"""Seconds that a request of a writer may take."""
READ_SECONDS = 4.0
"""Seconds that a request of a reader may take, and another host then: a search over HTTP is given up after five."""
PING_SECONDS = 2.0
"""Seconds that a cluster may take to say its version, after a request of a reader got no answer."""
RETRIES = 3
"""Retries of a request, on another host if there is one; all requests are idempotent or conditional."""
BULK_BYTES = 4 << 20
_MAJORS = ("2", "3")
_OPTIONS = {"shards": "1", "replicas": "1", "ca": "", "lease": "30"}
_MOST_LEASE = 86_400
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})

Json = dict[str, Any]

logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # failures are raised here; a 404 is not a failure


class ConflictError(BusyError):
    """A conditional write failed: another process has written the document since it was read."""


class RemovedError(UnavailableError):
    """The index that a request names is missing: it was never made, or was removed meanwhile."""


class StoredValue(NamedTuple):
    """A document of our own, and the parts that a conditional write names: its index, and its version as parameters."""

    value: Any
    index_name: str
    condition: Json


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A cluster, and the name of our index on it. `lease` is the time in seconds after which another writer may take
    over from one that does not finish. While `watch` sees that the cluster does not answer, requests raise
    UnavailableError at once."""

    client: OpenSearch
    writing_client: OpenSearch
    name: str
    shown: str
    shards: int
    replicas: int
    lease: float
    recent: dict[str, tuple[float, Any]] = field(default_factory=dict)  # states by index, see `state.recent`
    watch: ClusterWatch | None = None

    @classmethod
    def connect(cls, location: str) -> Cluster:
        """Connect to the cluster of a URL, passed without its scheme `opensearch:`. Raises UnknownEngineError,
        EngineError, UnavailableError."""
        shown = masked(f"opensearch:{location}")
        try:
            cluster = _configured(location, shown)
        except (ValueError, OSError) as error:
            raise UnknownEngineError(
                f"{shown!r} names no index: use opensearch:https://USER:PASSWORD@HOST:9200/NAME?shards=1&replicas=1 "
                f"({masked(str(error))})"
            ) from None
        cluster.for_writing().check_version()
        return replace(cluster, watch=ClusterWatch(cluster.ping))

    def for_writing(self) -> Cluster:
        """A copy of the cluster for a writer, which waits longer for each request, and repeats it."""
        return replace(self, client=self.writing_client, watch=None)

    def ping(self) -> None:
        """Raises UnavailableError where the cluster does not answer in PING_SECONDS."""
        self.request("GET", "/", request_timeout=PING_SECONDS)

    def check_version(self) -> None:
        """Raises EngineError when it is not a supported version of OpenSearch."""
        version = self.request("GET", "/").get("version") or {}
        distribution, number = version.get("distribution"), str(version.get("number", "unknown"))
        if distribution != "opensearch" or number.split(".", maxsplit=1)[0] not in _MAJORS:
            raise EngineError(
                f"{self.shown} is {distribution or 'no OpenSearch'} {number[:40]}: OpenSearch 2 or 3 is needed"
            )

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Json:
        """Make a request; the JSON object of the answer. Raises RemovedError, ConflictError, UnavailableError,
        EngineError."""
        if self.watch is not None and self.watch.is_away:
            raise UnavailableError(f"{self.shown} has not answered since a request failed")
        with self._translated():
            answer = self.client.transport.perform_request(method, path, params=params or None, body=body)
        if not isinstance(answer, dict):
            raise UnavailableError(f"{self.shown} answers {method} {path} with no JSON object")
        return cast("Json", answer)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except library.ConnectionError as error:
            if self.watch is not None:
                self.watch.look()
            raise UnavailableError(f"{self.shown} does not answer: {masked(str(error.info))[:300]}") from error
        except library.NotFoundError as error:
            raise RemovedError(f"{self.shown}: the index was removed meanwhile") from error
        except library.TransportError as error:
            raise self.error(error.status_code, error.error, error.info) from error
        except library.SerializationError as error:
            raise UnavailableError(f"{self.shown} answers with no JSON: {str(error)[:100]}") from error

    def error(self, status: int | str, kind: str, info: Any) -> EngineError:
        """The exception for an error status."""
        reason = f"{kind} {_reason(info)}"[:300]
        if status == 409:
            return ConflictError(f"{self.shown} was written by another process meanwhile")
        if "cluster_block" in reason:
            return UnavailableError(f"{self.shown} is read-only: {reason}")
        if status == 429:
            return UnavailableError(f"{self.shown} is overloaded (429): {reason}")
        if status in _TRANSIENT:
            return UnavailableError(f"{self.shown} cannot answer now ({status}): {reason}")
        if status in (401, 403):
            return EngineError(f"{self.shown} refuses these credentials ({status}): {reason}")
        return EngineError(f"{self.shown} refuses a request ({status}): {reason}")

    def search(self, index: str, body: Json) -> Json:
        """Search all shards of an index."""
        return self.request("POST", f"/{index}/_search", body, allow_partial_search_results="false")

    def get(self, index: str, name: str) -> StoredValue | None:
        """A document of our own in an index or behind an alias; None when it is missing."""
        try:
            document = self.request("GET", f"/{index}/_doc/{name}")
        except RemovedError:
            return None
        condition = {"if_seq_no": document["_seq_no"], "if_primary_term": document["_primary_term"]}
        return StoredValue(document["_source"].get("state"), document["_index"], condition)

    def put(self, name: str, value: Json, before: StoredValue) -> StoredValue:
        """Replace the document. Raises ConflictError when it has changed since it was read."""
        answer = self.request("PUT", f"/{before.index_name}/_doc/{name}", {"state": value}, **before.condition)
        condition = {"if_seq_no": answer["_seq_no"], "if_primary_term": answer["_primary_term"]}
        return StoredValue(value, before.index_name, condition)

    def bulk(self, index: str, actions: Iterable[Json]) -> None:
        """Run all actions, as `opensearchpy.helpers` takes them. Raises the exception of the first that failed; the
        others may or may not have succeeded."""
        with self._translated():
            for is_done, result in streaming_bulk(
                self.client, actions, index=index, max_chunk_bytes=BULK_BYTES, max_retries=RETRIES,
                initial_backoff=1, raise_on_error=False, yield_ok=False,
            ):  # fmt: skip
                if not is_done:
                    (refused,) = result.values()
                    raise self.error(refused["status"], refused["error"].get("type", ""), refused)

    def refresh(self, index: str) -> None:
        """Make all writes visible to searches."""
        shards = self.request("POST", f"/{index}/_refresh")["_shards"]
        if shards["failed"]:
            raise UnavailableError(f"{self.shown}: {shards['failed']} of {shards['total']} shards cannot be read now")


def _configured(location: str, shown: str) -> Cluster:
    parts = urlsplit(location)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if (
        parts.scheme not in ("http", "https")
        or not parts.netloc
        or parts.fragment
        or not parameters.keys() <= set(_OPTIONS)
    ):
        raise ValueError(f"the options are {', '.join(_OPTIONS)}")
    options = _OPTIONS | parameters
    name = parts.path.strip("/")
    if not name or name != name.lower() or not name.replace("-", "a").replace("_", "a").isalnum() or len(name) > 200:
        raise ValueError("NAME consists of lower-case letters, digits, - and _")
    lease = float(options["lease"])
    if not 0 < lease <= _MOST_LEASE:
        raise ValueError(f"lease is a positive number of seconds, up to {_MOST_LEASE:,}")
    user, _, hosts = parts.netloc.rpartition("@")
    if options["ca"]:
        ssl.create_default_context(cafile=options["ca"])  # raises an OSError that names an unreadable file
    addresses = [_host(parts.scheme, host) for host in hosts.split(",")]
    connect = partial(
        OpenSearch,
        addresses,
        http_auth=tuple(map(unquote, user.partition(":")[::2])) if user else None,
        connection_class=Urllib3HttpConnection,
        verify_certs=True,
        ca_certs=options["ca"] or None,
        retry_on_status=(502, 503, 504),
        pool_maxsize=32,
    )
    reading = connect(timeout=READ_SECONDS, max_retries=min(RETRIES, 1), retry_on_timeout=len(addresses) > 1)
    writing = connect(timeout=TIMEOUT, max_retries=RETRIES, retry_on_timeout=True)
    shards, replicas = _number(options, "shards", 1), _number(options, "replicas", 0)
    return Cluster(reading, writing, name, shown, shards, replicas, lease)


def _host(scheme: str, location: str) -> Json:
    parts = urlsplit(f"//{location}")
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
