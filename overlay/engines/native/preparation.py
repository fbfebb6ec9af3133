"""Run every kernel of the engine once: then all are compiled and cached (`parsers.jit`)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from overlay.engines import IndexPosition
from overlay.engines.native import NativeEngine
from overlay.search.document import Document
from overlay.search.planner import plan
from overlay.search.query import Operators, Query
from overlay.search.suggesting import suggest
from parsers.cards import Skill
from parsers.cards.offers import Offer


def prepare() -> None:
    """Index two small documents in a temporary folder, and run a query of each kind and a completion, on two segments;
    then merge them."""
    with TemporaryDirectory() as folder:
        engine = NativeEngine(Path(folder), make=True)
        try:
            for id_ in "ab":
                engine.write([id_], [_document(id_)], IndexPosition("", 0))
            for query in _QUERIES:
                matches = engine.search(query, plan(query.text, engine.terms()), 0, 9)
                for counted in matches.facets.values():
                    counted.commonest("x", 1)
            suggest("alpha", 1, engine.terms(), engine.complete)
            engine.write([], [], IndexPosition("", 1))
        finally:
            engine.close()


_QUERIES = (
    Query(text="alpha beta", facets=("tag",), updated_since=1),
    Query(text="alpha gamma", operators=Operators(phrases=("alpha beta",), not_tags=("x",))),
    Query(text="alpha gamma the", sort="price", max_price=Decimal(5)),
    Query(kind="agent", tags=("y",), facets=("type",)),
)


def _document(id_: str) -> Document:
    offer = Offer(0, "o", "", "USD", Decimal(1), None, "none", ("USD",), ("s",), "", None, "", None, "")
    return Document(
        id=id_, registration=id_, kind="agent", status="live", chain="c", caip2="bip122:c", owner="o",
        from_height=1, until_height=None, updated_height=1, updated_time=1, created_height=1, created_time=1,
        name="Alpha Beta", description="gamma", tags=("x",), skills=(Skill(id="s", name="s"),), offers=(offer,),
        item=b"{}",
    )  # fmt: skip
