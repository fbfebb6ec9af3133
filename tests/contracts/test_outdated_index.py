"""An index that another release made, or other systems, is rebuilt; items of other members are never answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Annotated

import pytest
from msgspec import Meta, defstruct

from indexer.store import Store, Writer, block_writer
from overlay.answers.items import StoredItem
from overlay.answers.record import schema_digest
from overlay.engines import EARLIER, EngineError, IndexContent, IndexPosition, OutdatedIndexError
from overlay.installation import NAMES
from overlay.projection.index_content import NAMES_OF_FACTS, content_digest, index_content
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import EPOCH, ask, listing, matching_ids, put
from tests.contracts.test_rebuilding import block
from tests.facts import says

NOW = index_content()
OTHER_ITEMS = NOW._replace(items="0" * 64)
SAME_ITEMS = [NOW._replace(projection=NOW.projection - 1), NOW._replace(systems=())]

Open = Callable[[IndexContent | None], SearchIndex]


@pytest.fixture
def open_as(engine_url: str) -> Iterator[Open]:
    """Opens the index as a program that makes documents of some content."""
    opened: list[SearchIndex] = []

    def open_index(content: IndexContent | None) -> SearchIndex:
        opened.append(SearchIndex(engine_url, content=content))
        return opened[-1]

    yield open_index
    for index in opened:
        index.close()


@pytest.mark.parametrize("content", SAME_ITEMS, ids=["projection", "systems"])
def test_items_of_the_same_members_are_found_until_the_index_is_rebuilt(open_as: Open, content: IndexContent) -> None:
    with closing(open_as(content)) as before:
        put(before, listing("1", "alpha"), listing("2", "alpha"))
        assert (before.position(), before.is_outdated) == (IndexPosition(EPOCH, 1), False)
    index = open_as(None)
    assert (index.position(), index.is_outdated, index.is_refusing) == (None, True, False)
    assert matching_ids(index, "alpha") == {"1", "2"}
    assert index.get("1") is not None
    with pytest.raises(EngineError, match="must be rebuilt"):
        put(index, listing("3", "alpha"), seq=2)
    with index.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"))
        assert index.promote(fresh)
    assert (index.position(), index.is_outdated, matching_ids(index, "alpha")) == (
        IndexPosition(EPOCH, 1),
        False,
        {"3"},
    )


@pytest.mark.parametrize("content", [OTHER_ITEMS, EARLIER], ids=["other members", "not stored"])
def test_items_of_other_members_are_not_answered(open_as: Open, content: IndexContent) -> None:
    with closing(open_as(content)) as before:
        put(before, listing("1", "alpha"))
    index = open_as(None)
    assert (index.position(), index.is_outdated, index.is_refusing) == (None, True, True)
    assert index.get("1") is None
    for search in (lambda: ask(index, "alpha"), lambda: index.suggest("al", 3), index.terms):
        with pytest.raises(OutdatedIndexError, match="try again"):
            search()
    with index.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"))
        assert index.promote(fresh)
    assert (index.is_refusing, matching_ids(index, "alpha")) == (False, {"3"})


def test_the_projector_rebuilds_it_once(open_as: Open, store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), block(1, "a", "b", "c")])
    with closing(open_as(OTHER_ITEMS)) as before:
        IndexProjector(store, before).run()
        found_before = matching_ids(before)
        assert len(found_before) == 3
    index = open_as(None)
    projector = IndexProjector(store, index)
    with pytest.raises(OutdatedIndexError):
        ask(index)
    projector.run()
    version = index.version
    assert (matching_ids(index), index.is_outdated) == (found_before, False)
    projector.run()
    assert index.version == version


def test_an_empty_index_is_not_outdated(open_as: Open) -> None:
    index = open_as(None)
    assert (index.position(), index.is_outdated, index.is_refusing, matching_ids(index)) == (None, False, False, set())


def test_another_member_is_another_schema_and_other_prose_is_not() -> None:
    base = (StoredItem,)
    required = defstruct("StoredItem", [("customers", int)], bases=base, kw_only=True, rename="camel")
    described = defstruct(
        "StoredItem", [("name", Annotated[str, Meta(description="Other prose.")])], bases=base, kw_only=True
    )
    assert schema_digest(required) != schema_digest(StoredItem)
    assert schema_digest(described) == schema_digest(StoredItem)


def test_another_filter_or_order_is_another_content() -> None:
    assert content_digest() == NOW.items
    assert content_digest((*NAMES_OF_FACTS, "another")) != NOW.items


def test_only_systems_that_add_to_items_count() -> None:
    assert index_content(("relay", "feeds", *reversed(NAMES))) == NOW
    assert index_content(("feeds",)).systems == ()
