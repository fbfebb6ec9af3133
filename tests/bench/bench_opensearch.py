"""Our answers beside those of a plain OpenSearch server on the same listings: `python -m tests.bench.bench_opensearch
[--offers N] [--requests N]`.

The questions of `bench_http` (60 % two words, 25 % one misspelt word, 15 % filters alone), pages of 20. Ours: from
the query string to the bytes of the page, over the native engine, in one thread without HTTP. The server: one shard,
`multi_match` over name, keywords and description with fuzziness, nested filters, stored items in the answer, over
HTTP with kept connections. Rates are per second of processor time, so that other work on the machine counts less: of
this thread, and of the server's process. Needs Java and the server of `tests/opensearch_server.py`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, parse_qsl

from opensearchpy import OpenSearch

from overlay.api.search_answer import page
from overlay.api.search_request import from_pairs
from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from tests.bench.bench_http import _cpu, questions
from tests.bench.bench_search import SHARED, build
from tests.bench.listings import listings, offers_of
from tests.opensearch_server import Distribution, Node, archive

INDEX, BULK = "plain", 1_000
FIELDS = ["name^2", "keywords", "description"]
TEXT, KEYWORD = {"type": "text", "analyzer": "standard"}, {"type": "keyword"}
OFFER = {"type": "nested", "properties": {"accepted": KEYWORD, "amount": {"type": "double"}}}
MAPPINGS = {
    "properties": {
        "name": TEXT, "keywords": TEXT, "description": TEXT, "type": KEYWORD, "offers": OFFER,
        "item": {"type": "object", "enabled": False},
    }
}  # fmt: skip


def source(document: Document) -> dict[str, Any]:
    """A listing as an OpenSearch document."""
    keywords = [*document.tags, *(word for skill in document.skills for word in (skill.id, skill.name, *skill.tags))]
    texts = [document.description, *(skill.description for skill in document.skills), *document.words]
    offers = [{"accepted": offer.accepted, "amount": float(offer.amount)} for offer in document.offers]
    return {
        "name": document.name, "keywords": " ".join(keywords), "description": " ".join(texts), "type": document.kind,
        "offers": offers, "item": json.loads(document.item),
    }  # fmt: skip


def fill(client: OpenSearch, documents: Sequence[Document]) -> None:
    """Index the listings in bulk."""
    client.indices.create(index=INDEX, body={"mappings": MAPPINGS, "settings": {"number_of_replicas": 0}})
    for start in range(0, len(documents), BULK):
        lines: list[Any] = []
        for document in documents[start : start + BULK]:
            lines += [{"index": {}}, source(document)]
        client.bulk(index=INDEX, body=lines)
    client.indices.forcemerge(index=INDEX, max_num_segments=1, request_timeout=600)


def body(question: str) -> dict[str, Any]:
    """The search that a query string asks for."""
    values = {name: texts[0] for name, texts in parse_qs(question).items()}
    parts: dict[str, Any] = {"must": [], "filter": []}
    if text := values.get("q"):
        match = {"query": text, "fields": FIELDS, "type": "most_fields", "fuzziness": "AUTO:5,9"}
        parts["must"] = [{"multi_match": match}]
    if kind := values.get("type"):
        offer = [
            {"term": {"offers.accepted": values["acceptedCurrency"]}},
            {"range": {"offers.amount": {"lte": float(values["maxPrice"])}}},
        ]
        nested = {"path": "offers", "query": {"bool": {"filter": offer}}}
        parts["filter"] = [{"term": {"type": kind}}, {"nested": nested}]
    return {"query": {"bool": parts}, "size": 20, "track_total_hits": True, "_source": ["item"]}


def ours(engine: SearchIndex, question: str) -> bytes:
    """The page of a query string."""
    search_request = from_pairs(parse_qsl(question), {})
    return b"".join(page(search_request, engine.search(search_request.query), IndexPosition("bench", 0), {}))


def row(name: str, requests: Sequence[str], ask: Callable[[str], object], clock: Callable[[], float]) -> float:
    """Run the questions: a line of the table; requests per second of processor time."""
    walls, began = [], clock()
    for question in requests:
        start = time.perf_counter()
        ask(question)
        walls.append(1000 * (time.perf_counter() - start))
    rate = len(requests) / (clock() - began)
    walls.sort()
    p50, p99 = (walls[round((len(walls) - 1) * part)] for part in (0.5, 0.99))
    print(f"  {name:<36} {rate:>8,.0f} a second and core, by the wall p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)
    return rate


@contextmanager
def server() -> Iterator[Node]:
    """A running node."""
    java, packed = shutil.which("java"), archive()
    if java is None or packed is None:
        raise SystemExit("Java or the OpenSearch server is missing: see tests/opensearch_server.py")
    programs = Distribution(packed, java)
    node = programs.node("discovery.type=single-node", heap=1_024)
    try:
        node.wait("/_cluster/health?wait_for_status=yellow&timeout=5s")
        yield node
    finally:
        node.kill()
        programs.remove()


def compare(
    engine: SearchIndex, node: Node, documents: Sequence[Document], requests: Sequence[str], warm: Sequence[str]
) -> None:
    """Print a line for each side, and the ratio."""
    client = OpenSearch([{"host": "127.0.0.1", "port": node.port}], timeout=60)
    fill(client, documents)

    def theirs(question: str) -> object:
        return client.search(index=INDEX, body=body(question))

    for question in warm:
        ours(engine, question)
        theirs(question)
    rate = row("ours, query string to page", requests, lambda text: ours(engine, text), time.thread_time)
    other = row("OpenSearch, POST /_search", requests, theirs, lambda: _cpu(node._process.pid))
    print(f"  ratio {rate / other:.1f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=2_000)
    args = parser.parse_args()
    documents = offers_of(listings(1, SHARED if SHARED.is_dir() else None), args.offers)
    requests = list(islice(questions(documents), args.requests))
    warm = list(islice(questions(documents, seed=8), args.requests // 2))
    print(f"{args.offers:,} offers in {len(documents):,} listings")
    with tempfile.TemporaryDirectory() as folder:
        engine = SearchIndex(f"native:{folder}")
        build(engine, documents)
        with server() as node:
            compare(engine, node, documents, requests, warm)
        engine.close()


if __name__ == "__main__":
    main()
