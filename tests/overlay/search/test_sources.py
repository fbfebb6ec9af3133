"""The numbers of sources, of which a page has few results, are those of one database alone."""

from __future__ import annotations

from pathlib import Path

from overlay.projection.documents import DocumentReader
from overlay.search.document import Document
from overlay.search.facts import facts
from tests.facts import outpoint_of
from tests.overlay.duplicates.test_duplicates import ALPHA, BETA, Registry, inscribed, opened


def documents(registry: Registry) -> dict[str, Document]:
    """The documents of `a` (alice), `b` (alice, another host), `c` (bob) and `d` (bob, the host of `c`)."""
    ids = {name: str(outpoint_of(name)) for name in "abcd"}
    by_id = {one.id: one for one in DocumentReader(registry.store).documents(ids.values())}
    return {name: by_id[id_] for name, id_ in ids.items()}


def filled(registry: Registry) -> None:
    bodies = {"a": (ALPHA, "alice"), "b": (BETA, "alice"), "c": (ALPHA, "bob"), "d": (ALPHA, "bob")}
    events = [inscribed(name, body, owner=owner) for name, (body, owner) in bodies.items()]
    registry.block("1", *events, bodies=(ALPHA, BETA))


def test_a_source_is_an_owner_with_a_host_by_a_number_that_only_this_database_has(tmp_path: Path) -> None:
    numbers = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        with opened("native", folder) as registry:
            filled(registry)
            sources = {name: one.source for name, one in documents(registry).items()}
        assert sources["c"] == sources["d"]
        assert len(set(sources.values())) == 3
        numbers.append(set(sources.values()))
    assert not numbers[0] & numbers[1]


def test_a_listing_that_its_domain_confirms_is_of_no_source(tmp_path: Path) -> None:
    with opened("native", tmp_path) as registry:
        filled(registry)
        registry.badge("c", "api.example", ALPHA)
        sources = documents(registry)
    assert (sources["c"].source, sources["d"].source != 0) == (0, True)
    assert [fact for fact in facts(sources["c"]) if fact.startswith("source:")] == []
    assert [fact for fact in facts(sources["d"]) if fact.startswith("source:")] == [
        f"source:{sources['d'].source:016x}"
    ]
