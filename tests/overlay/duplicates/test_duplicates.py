"""Copy-cats: of identical cards one is found, and what another listing said first is a warning on the later one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.check_verdict import HostVerdict
from indexer.model import Event, EventKind
from indexer.store import Store, Writer, block_writer, chain_marks, connect, visits
from indexer.store.badges import BadgeCandidate
from overlay.duplicates import text_key_groups, text_key_table
from overlay.duplicates.duplicate_index import FILE, DuplicateIndex
from overlay.duplicates.earlier_listings import EarlierListings
from overlay.duplicates.skeleton import skeletons
from overlay.duplicates.text_keys import TEXT, TextKeyHistory, same_url
from overlay.engines import IndexPosition
from overlay.engines.native import durable
from overlay.listings.listing import Listing, listings_of
from overlay.listings.records import Registration
from overlay.projection import documents, projector
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Since
from overlay.search.query import Hits, Query
from parsers.cards import Kind, read_of
from tests.facts import born, burned, name, outpoint_of, says, state
from tests.pointer_facts import Clock, card, digest, points, serves

PRICE = {"amount": "1", "currency": "USD", "interval": None}


def priced(title: str, address: str, **more: Any) -> bytes:
    """A card whose one offer is paid to an address."""
    config = {"id": "basic", "name": "Basic", **PRICE, "address": address}
    return card(title, **{"x-payment-config": [config], **more})


def inscribed(id_: str, body: bytes, position: int = 0, height: int = 1, owner: str = "") -> Event:
    """A registration appears with this card, by default of an owner of its own."""
    owner = owner or f"owner of {id_}"
    answer = born(id_, position, height)
    assert answer.state is not None
    return replace(answer, card=digest(body), owner=owner, state=replace(answer.state, card=digest(body), owner=owner))


def again(id_: str, body: bytes, height: int, position: int = 0) -> Event:
    """It is inscribed anew."""
    where = f"{id_}{height}"
    winner = outpoint_of(where)
    owner = f"owner of {id_}"
    after = replace(state(id_, where, height, card=digest(body), winner=winner, created_height=1), owner=owner)
    return Event(
        kind=EventKind.REINSCRIBED, position=position, tx_index=position + 1, txid=name(where), outpoint=winner,
        spent=outpoint_of(id_), card=digest(body), owner=owner, state=after,
    )  # fmt: skip


class Registry:
    """Facts and an index that follows them."""

    def __init__(self, store: Store, writer: Writer, clock: Clock, engine: Any, folder: Path) -> None:
        self.store, self.writer, self.clock, self.engine, self._folder = store, writer, clock, engine, folder
        self._duplicates = DuplicateIndex(str(folder))
        self.feed = IndexProjector(store, engine, self._duplicates)
        self._prev: dict[str, str] = {}

    def close(self) -> None:
        self._duplicates.close()
        self.writer.close()
        self.store.close()

    def lose(self) -> None:
        """The file of text keys is lost."""
        self._duplicates.close()
        (self._folder / FILE).unlink()
        self._duplicates = DuplicateIndex(str(self._folder))
        self.feed = IndexProjector(self.store, self.engine, self._duplicates)

    def restore(self, database: Path) -> None:
        """The database is an older one, and the index with it, but not the file of text keys."""
        self.writer.close()
        self.store.close()
        self.store = Store(connect(f"sqlite:///{database}"))
        self.writer = Writer(self.store.engine, self.clock)
        IndexProjector(self.store, self.engine).rebuild()
        self.feed = IndexProjector(self.store, self.engine, self._duplicates)
        self._prev = {"demo": "1"}

    def block(self, label: str, *messages: Event, bodies: tuple[bytes, ...] = (), chain: str = "demo") -> None:
        placed = tuple(replace(entry, position=index, tx_index=index + 1) for index, entry in enumerate(messages))
        cards = {digest(body): body for body in bodies}
        block_writer.append(
            self.writer, chain, [says(label, *placed, prev=self._prev.get(chain, ""), chain=chain, cards=cards)]
        )
        self._prev[chain] = label

    def ask(self, **requests: Any) -> Hits:
        self.feed.run()
        return self.engine.search(Query(**{"limit": 100, "facets": ("type",)} | requests))

    def matching(self, **requests: Any) -> dict[str, dict[str, Any]]:
        """Items by the name of their registration; total and facets agree with what is shown."""
        hits = self.ask(**requests)
        assert hits.total == len(hits.hits)
        assert sum(count for _, count in (hits.facets or {}).get("type", ())) == len(hits.hits)
        return {named(hit.id): json.loads(bytes(hit.item)) for hit in hits.hits}

    def item(self, id_: str) -> dict[str, Any]:
        self.feed.run()
        answer = self.engine.get(id_ if "." in id_ else str(outpoint_of(id_)))
        assert answer is not None
        return dict(json.loads(answer))

    def warned(self, id_: str) -> dict[str, str]:
        """The warnings about copies, by code, with the sentence."""
        return {
            warning["code"]: warning["detail"]
            for warning in self.item(id_)["warnings"]
            if warning["code"].startswith("same-")
        }

    def badge(self, id_: str, host: str, body: bytes, by: str = "name") -> None:
        """The host of its URL speaks for a registration."""
        registration = str(outpoint_of(id_))
        now = self.clock.tick()
        visits.update_candidates(
            self.writer,
            [BadgeCandidate(registration, host, digest(body))],
            [registration],
            self.store.outbox.newest_seq(),
            now,
        )
        named = frozenset({registration}) if by == "name" else frozenset[str]()
        served = frozenset({digest(body)}) if by == "hash" else frozenset[bytes]()
        visits.record_host(self.writer, HostVerdict(host, named, frozenset(), served), now)


def named(id_: str) -> str:
    """`a` for the outpoint that tests call so."""
    try:
        return bytes.fromhex(id_[:64])[::-1].rstrip(b"\0").decode()
    except ValueError:
        return id_


@contextmanager
def opened(engine: str, folder: Path) -> Iterator[Registry]:
    """A registry of two chains that is searched with an engine."""
    clock = Clock(1_700_000_000_000)
    database = connect(f"sqlite:///{folder}/a2b.db")
    writer = Writer(database, clock)
    for chain in ("demo", "ltc"):
        chain_marks.name_chain(writer, chain, f"{chain}:regtest")
    with closing(SearchIndex(f"{engine}:{folder / 'index'}")) as index:
        created = Registry(Store(database), writer, clock, index, folder / "index")
        yield created
        created.close()


@pytest.fixture(params=["native", "whoosh"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    with opened(request.param, tmp_path) as created:
        yield created


ALPHA, BETA = card("Alpha"), card("Beta", url="https://beta.example/")


# -- identical cards --------------------------------------------------------------------------------------------------


def test_of_identical_cards_the_oldest_is_found_and_says_how_many_there_are(registry: Registry) -> None:
    registry.block("1", inscribed("b", BETA), inscribed("a", ALPHA), inscribed("c", ALPHA), bodies=(ALPHA, BETA))
    registry.block("2", inscribed("d", ALPHA, height=2), bodies=(ALPHA,))
    for text in ("", "alpha", "agent"):
        result = registry.matching(text=text)
        assert set(result) - {"b"} == {"a"}
        assert result["a"]["duplicates"] == 2
    assert "duplicates" not in registry.matching()["b"]
    assert [item.id for item in registry.engine.suggest("alph", 5)] == [str(outpoint_of("a"))]


def test_the_next_one_is_found_when_the_oldest_is_gone_or_says_something_else(registry: Registry) -> None:
    registry.block("1", inscribed("a", ALPHA), inscribed("b", ALPHA), inscribed("c", ALPHA), bodies=(ALPHA, BETA))
    assert set(registry.matching()) == {"a"}
    registry.block("2", burned("a", "a", "gone", height=2))
    result = registry.matching()
    assert set(result) == {"b"}
    assert result["b"]["duplicates"] == 1
    registry.block("3", again("b", BETA, 3))
    assert set(registry.matching()) == {"b", "c"}
    assert "duplicates" not in registry.matching()["c"]
    block_writer.forget(registry.writer, "demo", 1)
    registry._prev["demo"] = "1"
    assert set(registry.matching()) == {"a"}
    assert registry.matching()["a"]["duplicates"] == 2


def test_the_listing_confirmed_by_its_domain_is_found_before_older_ones(registry: Registry) -> None:
    registry.block("1", inscribed("a", BETA), inscribed("b", BETA), bodies=(BETA,))
    registry.badge("b", "beta.example", BETA)
    result = registry.matching()
    assert set(result) == {"b"} == set(registry.matching(verified=True))
    assert result["b"]["duplicates"] == 1
    assert set(registry.matching(verified=False)) == {"a"}


def test_a_strangers_domain_that_serves_a_verified_card_does_not_take_its_place(registry: Registry) -> None:
    registry.block("1", points("m.example", BETA), inscribed("a", BETA), bodies=(BETA,))
    visits.record_fetch(registry.writer, "m.example", serves(registry.clock.tick(), BETA))
    assert set(registry.matching()) == {"m.example"}  # verified goes before what is not
    registry.badge("a", "beta.example", BETA, by="hash")
    assert set(registry.matching()) == {"a"} == set(registry.matching(verified=True))
    registry.block("2", points("beta.example", BETA))
    visits.record_fetch(registry.writer, "beta.example", serves(registry.clock.tick(), BETA))
    assert set(registry.matching()) == {"a"}  # of two that their domain speaks for, the older
    assert registry.matching()["a"]["duplicates"] == 2


def test_the_first_to_publish_a_text_ranks_first_for_any_age_of_the_registration(registry: Registry) -> None:
    registry.block("1", inscribed("old", ALPHA), bodies=(ALPHA,))
    registry.block("2", inscribed("author", BETA, height=2), bodies=(BETA,))
    registry.block("3", again("old", BETA, 3))
    assert set(registry.matching()) == {"author"}
    registry.block("4", replace(again("author", ALPHA, 4)))
    assert set(registry.matching()) == {"author", "old"}
    registry.block("5", replace(again("author", BETA, 5), spent=outpoint_of("author4")))
    assert set(registry.matching()) == {"author"}  # another text in between does not reset the seniority


def test_filters_find_what_they_ask_for_though_an_identical_one_is_shown_elsewhere(registry: Registry) -> None:
    registry.block("1", inscribed("a", ALPHA), inscribed("b", ALPHA, owner="bob"), bodies=(ALPHA,))
    registry.block("1", inscribed("l", ALPHA), inscribed("m", ALPHA), bodies=(ALPHA,), chain="ltc")
    assert set(registry.matching()) == {"a"} == set(registry.matching(kind="agent", text="alpha"))
    assert set(registry.matching(chains=("demo",))) == {"a"}
    assert set(registry.matching(chains=("ltc",))) == {"l"} == set(registry.matching(chains=("ltc",), text="alpha"))
    assert set(registry.matching(chains=("ltc", "demo"))) == {"a", "l"}  # chain by chain
    assert set(registry.matching(owners=("bob",))) == {"b"}
    assert set(registry.matching(domains=("api.example",))) == {"a", "l"}
    assert set(registry.matching(domains=("api.example",), chains=("ltc",))) == {"l"}
    assert set(registry.matching(verified=False)) == {"a", "b", "l", "m"}
    assert set(registry.matching(updated_since=1)) == {"a", "b", "l", "m"}
    assert set(registry.matching(height_chain="demo", from_height=1)) == {"a", "b"}
    assert set(registry.matching(height_chain="demo", as_of=1)) == {"a", "b"}
    assert set(registry.matching(statuses=("live", "pending", "burned"))) == {"a"}


# -- what was said before ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "theirs"),
    [
        ("same-name", card("ＡＬＰＨＡ", url="https://other.example/")),
        ("same-name", card("  alpha ", url="https://other.example/")),
        ("same-url", card("Gamma", url="https://API.example/a2a/#top")),
        ("same-address", priced("Gamma", "0xABCDEF", url="https://other.example/")),
    ],
)
def test_the_later_listing_is_warned_of(registry: Registry, code: str, theirs: bytes) -> None:
    first = priced("Alpha", "0xabcdef")
    registry.block("1", inscribed("a", first), bodies=(first,))
    registry.block("2", inscribed("b", theirs, height=2, owner="bob"), bodies=(theirs,))
    assert registry.warned("a") == {}
    assert set(registry.warned("b")) == {code}
    assert registry.warned("b")[code].endswith(f" before: {outpoint_of('a')}")
    assert set(registry.matching()) == {"a", "b"}
    registry.block("3", burned("a", "a", "gone", height=3))
    assert registry.warned("b") == {}


def test_several_servers_of_one_registration_are_no_copies_of_each_other(registry: Registry) -> None:
    server = {"url": "https://tools.example/mcp", "description": "x"}
    body = json.dumps({"mcpServers": {"one": server, "two": server}}).encode()
    tx = inscribed("t", body)
    assert tx.state is not None
    from parsers.cards import Kind

    registry.block("1", replace(tx, state=replace(tx.state, kind=Kind.TOOL)), bodies=(body,))
    for key in ("one", "two"):
        result = registry.engine.get(f"{outpoint_of('t')}#{key}") if registry.feed.run() or True else b""
        assert [warning["code"] for warning in json.loads(result or b"")["warnings"]] == []


def test_listings_of_one_owner_do_not_warn_of_each_other(registry: Registry) -> None:
    cards = [card("Alpha", description=f"The agent {word}.") for word in ("one", "two", "three", "four")]
    messages = [
        inscribed(f"a{number}", body, owner="bob" if number == 2 else "alice") for number, body in enumerate(cards)
    ]
    registry.block("1", *messages, bodies=tuple(cards))
    assert (registry.warned("a1"), registry.warned("a3")) == ({}, {})
    assert registry.warned("a2")["same-name"].endswith(f"{outpoint_of('a0')}")
    assert {warning["severity"] for warning in registry.item("a2")["warnings"] if warning["code"] == "same-name"} == {
        "low"
    }
    registry.block("2", burned("a0", "a0", "gone", height=2))
    assert registry.warned("a1") == {}
    assert registry.warned("a2")["same-name"].endswith(f"{outpoint_of('a1')}")


def test_a_second_agent_of_one_owner_that_is_paid_at_the_same_address_is_not_warned_of(registry: Registry) -> None:
    first, second = priced("Alpha", "pay here"), priced("Beta", "pay here", url="https://beta.example/")
    registry.block(
        "1", inscribed("a", first, owner="alice"), inscribed("b", second, owner="alice"), bodies=(first, second)
    )
    assert registry.warned("b") == {}


def test_a_listing_for_another_ones_address_cannot_take_its_name_to_another_url_unnoticed(registry: Registry) -> None:
    gift = card("Alpha", url="https://mallory.example/")
    registry.block("1", inscribed("a", ALPHA, owner="alice"), inscribed("b", gift, owner="alice"), bodies=(ALPHA, gift))
    assert set(registry.warned("b")) == {"same-name"}
    named_first = f"{outpoint_of('a')}, of the same owner; in your name?"
    assert registry.warned("b")["same-name"].endswith(named_first)
    assert foretold(registry, gift, "alice") == {"same-name": named_first}
    moved = again("a", gift, 2)
    registry.block("2", replace(moved, owner="alice", state=replace(moved.state, owner="alice")))
    assert registry.warned("b") == {}


def test_a_listing_for_another_ones_address_cannot_bring_in_a_pay_to_address_unnoticed(registry: Registry) -> None:
    first, more = priced("Alpha", "alice pays here"), priced("Alpha", "alice pays here", description="More of it.")
    gift = priced("Alpha", "mallory takes it", url="https://gift.example/")
    registry.block(
        "1", inscribed("a", first, owner="alice"), inscribed("b", more, owner="alice"),
        inscribed("c", gift, owner="alice"), bodies=(first, more, gift),
    )  # fmt: skip
    assert registry.warned("b") == {}
    assert set(registry.warned("c")) == {"same-name"}
    assert registry.warned("c")["same-name"].endswith(f"{outpoint_of('a')}, of the same owner; in your name?")
    changed = priced("Alpha", "mallory takes it")
    registry.block("2", replace(again("a", changed, 2), owner="alice", state=replace(
        again("a", changed, 2).state, owner="alice")), bodies=(changed,))  # fmt: skip
    assert (set(registry.warned("b")), set(registry.warned("c"))) == ({"same-name", "same-url"}, {"same-name"})


def foretold(registry: Registry, body: bytes, owner: str = "", id_: str = "") -> dict[str, str]:
    """The warnings of a card before it is published, by code, without the hint."""
    registry.feed.run()
    earlier = EarlierListings(registry.engine.search, owner, id_)
    reasons = earlier.reasons(read_of("", body, Kind.AGENT))  # type: ignore[arg-type]
    return {reason.code: reason.detail.partition(" (")[0] for reason in reasons}


def test_the_warnings_of_a_card_are_known_before_it_is_published(registry: Registry) -> None:
    first = priced("Alpha", "pay here")
    copy = priced("ALPHA", "pay here", description="another text")
    registry.block("1", inscribed("a", first), inscribed("b", BETA), bodies=(first, BETA))
    expected = dict.fromkeys(("same-name", "same-url", "same-address"), str(outpoint_of("a")))
    assert foretold(registry, copy) == foretold(registry, copy, "somebody") == expected
    assert foretold(registry, copy, "owner of a") == {}
    assert foretold(registry, copy, "owner of b", str(outpoint_of("b"))) == expected
    assert foretold(registry, copy, "owner of a", str(outpoint_of("a"))) == {}
    assert foretold(registry, card("Gamma", url="https://gamma.example/")) == {}
    registry.block("2", inscribed("c", copy, height=2), bodies=(copy,))
    sentences = {code: text.rpartition(": ")[2] for code, text in registry.warned("c").items()}
    assert sentences == expected
    assert foretold(registry, copy) == expected  # the first, not the copy
    registry.block("3", burned("a", "a", "gone", height=3))
    assert foretold(registry, copy) == dict.fromkeys(expected, str(outpoint_of("c")))


SIBLINGS = [
    priced(title, address, url=f"https://{host}.example/")
    for title in ("Alpha", "Beta") for host in ("one", "two") for address in ("alice pays here", "mallory takes it")
]  # fmt: skip


@pytest.mark.parametrize("owner", ["alice", "bob"])
def test_an_update_is_warned_of_before_it_is_published_as_it_is_afterwards(registry: Registry, owner: str) -> None:
    """Also where its owner has the name, URL or address in an older listing, and the update brings in another."""
    stays, first = SIBLINGS[0], SIBLINGS[-1]
    registry.block("1", inscribed("a", stays, owner="alice"), bodies=(stays,))
    registry.block("2", inscribed("b", first, height=2, owner=owner), bodies=(first,))
    before, seen = outpoint_of("b"), set()
    for height, body in enumerate([*SIBLINGS, SIBLINGS[0], *SIBLINGS[::-1]], 3):
        expected = foretold(registry, body, owner, str(outpoint_of("b")))
        changed = again("b", body, height)
        assert changed.state is not None
        after_it = replace(changed.state, owner=owner, created_height=2)
        event = replace(changed, owner=owner, spent=before, state=after_it)
        registry.block(str(height), event, bodies=(body,))
        before = outpoint_of(f"b{height}")
        after = {code: text.rpartition(": ")[2] for code, text in registry.warned("b").items()}
        assert expected == after, body
        seen |= set(after)
    assert seen == ({"same-name", "same-url"} if owner == "alice" else {"same-name", "same-url", "same-address"})


def test_a_domain_that_names_a_listing_keeps_its_update_from_warnings(registry: Registry) -> None:
    body = priced("Alpha", "mallory takes it", url="https://beta.example/")
    registry.block("1", inscribed("a", ALPHA, owner="alice"), bodies=(ALPHA,))
    registry.block("2", inscribed("b", body, height=2, owner="alice"), bodies=(body,))
    assert foretold(registry, body, "alice", str(outpoint_of("b"))).keys() == {"same-name"}
    registry.badge("b", "beta.example", body)
    assert registry.warned("b") == {}
    assert foretold(registry, body, "alice", str(outpoint_of("b"))) == {}


def test_a_later_user_of_a_name_is_not_named_as_the_first(registry: Registry) -> None:
    renamed = card("Alpha", url="https://old.example/")
    registry.block("1", inscribed("old", BETA), bodies=(BETA,))
    registry.block("2", inscribed("a", ALPHA, height=2), bodies=(ALPHA,))
    registry.block("3", again("old", renamed, 3), bodies=(renamed,))
    assert foretold(registry, card("Alpha", url="https://new.example/")) == {"same-name": str(outpoint_of("a"))}


def test_an_old_registration_that_takes_up_a_name_is_the_later_one(registry: Registry) -> None:
    squatter = card("Alpha", url="https://squatter.example/")
    registry.block("1", inscribed("old", BETA), bodies=(BETA,))
    registry.block("2", inscribed("a", ALPHA, height=2), bodies=(ALPHA,))
    registry.block("3", again("old", squatter, 3), bodies=(squatter,))
    assert registry.warned("a") == {}
    assert set(registry.warned("old")) == {"same-name"}


def test_an_update_that_keeps_its_name_stays_the_first_to_have_it(registry: Registry) -> None:
    newer = card("Alpha", url="https://newer.example/", description="better")
    copy = card("Alpha", url="https://copy.example/")
    registry.block("1", inscribed("a", ALPHA), bodies=(ALPHA,))
    registry.block("2", inscribed("b", copy, height=2), bodies=(copy,))
    registry.block("3", again("a", newer, 3), bodies=(newer,))
    assert registry.warned("a") == {}
    assert set(registry.warned("b")) == {"same-name"}


def test_a_pointer_that_is_renewed_stays_the_first_to_have_its_name(registry: Registry) -> None:
    newer = card("Alpha", url="https://newer.example/")
    copy = card("Alpha", url="https://copy.example/")
    registry.block("1", points("a.example", ALPHA, "p1"))
    visits.record_fetch(registry.writer, "a.example", serves(registry.clock.tick(), ALPHA))
    registry.block("2", inscribed("b", copy, height=2), bodies=(copy,))
    assert set(registry.warned("b")) == {"same-name"}
    registry.block("3", points("a.example", newer, "p2"))
    visits.record_fetch(registry.writer, "a.example", serves(registry.clock.tick(), newer))
    assert registry.item("a.example")["url"] == "https://newer.example/"
    assert registry.warned("a.example") == {}
    assert set(registry.warned("b")) == {"same-name"}


def test_a_listing_with_a_badge_by_name_is_never_called_a_copy(registry: Registry) -> None:
    theirs = priced("Beta", "0xabc", url="https://beta.example/")
    registry.block("1", inscribed("squatter", theirs), bodies=(theirs,))
    registry.block("2", inscribed("b", theirs, height=2), bodies=(theirs,))
    assert set(registry.warned("b")) == {"same-name", "same-url", "same-address"}
    registry.badge("b", "beta.example", theirs)
    assert registry.warned("b") == {}
    assert set(registry.matching()) == {"b"}


def test_a_domains_own_pointer_is_not_warned_of_its_own_url(registry: Registry) -> None:
    registry.block("1", inscribed("squatter", card("Other", url="https://beta.example/")), bodies=(BETA,))
    registry.block("1", inscribed("s", card("Other", url="https://beta.example/")),
                   bodies=(card("Other", url="https://beta.example/"),), chain="ltc")  # fmt: skip
    registry.block("2", points("beta.example", BETA))
    visits.record_fetch(registry.writer, "beta.example", serves(registry.clock.tick(), BETA))
    assert registry.warned("beta.example") == {}


# -- the index --------------------------------------------------------------------------------------------------------


def test_a_rebuilt_index_is_the_same_also_where_the_text_keys_were_lost(registry: Registry) -> None:
    body = priced("Alpha", "0xabc")
    registry.block("1", inscribed("a", body), inscribed("b", body), inscribed("c", ALPHA), bodies=(body, ALPHA))
    registry.block("2", again("b", BETA, 2), bodies=(BETA,))
    registry.block("3", inscribed("d", body, height=3), burned("c", "c", "gone", height=3))

    def whole() -> dict[str, Any]:
        return {id_: registry.item(id_) for id_ in "abd"} | {"found": sorted(registry.matching())}

    living = whole()
    assert living["found"] == ["a", "b"]
    registry.lose()
    assert whole() == living
    registry.block("4", burned("a", "a", "over", height=4))
    assert sorted(registry.matching()) == ["b", "d"]
    registry.feed.rebuild()
    assert sorted(registry.matching()) == ["b", "d"]
    assert registry.warned("d") == {}


def test_a_rebuilt_index_names_the_same_first_holders_as_one_that_followed_the_chain(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond `NAMING` holders a warning names who was first when it was written: the order of reading counts."""
    monkeypatch.setattr(text_key_groups, "NAMING", 2)
    monkeypatch.setattr(projector, "BATCH", 2)
    newest_first = "zyxwvutsrq"
    for height, id_ in enumerate(newest_first, 1):
        body = card(f"Agent {id_}")  # all of one URL
        registry.block(str(height), inscribed(id_, body, height=height), bodies=(body,))

    def warnings() -> dict[str, dict[str, str]]:
        return {id_: registry.warned(id_) for id_ in newest_first}

    followed = warnings()
    assert [id_ for id_ in newest_first if str(outpoint_of("z")) in followed[id_].get("same-url", "")] == [
        *newest_first[1:]
    ]
    registry.feed.rebuild()
    assert warnings() == followed


def test_a_rebuild_writes_a_registration_on_two_chains_once(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "BATCH", 1)
    registry.block("1", inscribed("a", ALPHA), inscribed("b", BETA), bodies=(ALPHA, BETA))
    registry.block("1", inscribed("a", ALPHA), chain="ltc")
    followed = [hit.id for hit in registry.ask(with_duplicates=True, sort="name").hits]
    assert len(followed) == 3
    registry.feed.rebuild()
    assert [hit.id for hit in registry.ask(with_duplicates=True, sort="name").hits] == followed


def test_text_keys_of_a_rebuild_are_in_files_that_nobody_sees(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry.block("1", inscribed("a", ALPHA), inscribed("b", ALPHA, 1), bodies=(ALPHA,))
    registry.feed.run()
    for module, member in ((projector, "BATCH"), (text_key_table, "FEWEST"), (durable, "LARGE")):
        monkeypatch.setattr(module, member, 1)
    mapped: list[bool] = []

    def look(_done: int, _of: int) -> None:
        lines = Path("/proc/self/maps").read_text().splitlines()
        mapped.append(any(f" {tmp_path}/index/" in line and line.endswith("(deleted)") for line in lines))

    registry.feed.rebuild(look)
    assert mapped[-1]


def test_a_commit_counts_as_read_when_all_its_text_keys_are_recorded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A copy that is made meanwhile reads its changes again."""
    monkeypatch.setattr(projector, "BATCH", 1)
    registry.block("1", inscribed("a", ALPHA), bodies=(ALPHA,))
    registry.feed.run()
    before, positions = registry.feed.position(), list[IndexPosition | None]()

    def look(_: int) -> None:
        with closing(DuplicateIndex(str(tmp_path / "index"))) as duplicates:
            positions.append(duplicates.position())

    registry.block("2", *(inscribed(id_, ALPHA, height=2) for id_ in "bcd"))
    registry.feed.step(look)
    assert positions == [before, before, registry.feed.position()]
    assert before != registry.feed.position()


def test_a_commit_on_a_server_has_one_batch_of_changes(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of its writer is not renewed in a commit: two machines would take it from each other for ever."""
    registry.block("1", inscribed("a", ALPHA), bodies=(ALPHA,))
    registry.feed.run()
    monkeypatch.setattr(projector, "BATCH", 2)
    registry.block("2", *(inscribed(id_, ALPHA, height=2) for id_ in "bcdef"))
    assert registry.feed.step() == 5
    registry.block("3", *(inscribed(id_, ALPHA, height=3) for id_ in "ghijk"))
    monkeypatch.setattr(registry.engine, "name", "opensearch")
    assert registry.feed.step() == 2


def test_changes_while_the_text_keys_were_lost_are_announced_for_all_others(registry: Registry) -> None:
    """No process knows what the others received before."""
    body, theirs = priced("Alpha", "0xabc"), card("Gamma")
    same_name = card("Gamma", url="https://elsewhere.example/")
    first = inscribed("a", body), inscribed("b", body), inscribed("c", theirs), inscribed("d", same_name)
    registry.block("1", *first, bodies=(body, theirs, same_name))
    assert sorted(registry.matching()) == ["a", "c", "d"]
    assert "same-name" in registry.warned("d")
    registry.lose()
    registry.block("2", burned("a", "a", "gone", height=2), burned("c", "c", "over", height=2))
    assert sorted(registry.matching()) == ["b", "d"]
    assert registry.warned("d") == {}


def test_text_keys_of_a_future_that_the_database_has_lost_are_read_again(registry: Registry, tmp_path: Path) -> None:
    """A database that was restored together with an index in it, and the text keys beside them not."""
    body, copied = priced("Alpha", "0xabc"), priced("Beta", "0xdef")
    registry.block("1", inscribed("a", body), inscribed("b", copied), bodies=(body, copied))
    registry.feed.run()
    with closing(sqlite3.connect(tmp_path / "a2b.db")) as living, closing(sqlite3.connect(tmp_path / "old.db")) as old:
        living.backup(old)
    registry.block("2", inscribed("c", copied, height=2), burned("b", "b", "gone", height=2))
    assert sorted(registry.matching()) == ["a", "c"]
    registry.restore(tmp_path / "old.db")
    registry.block("2", inscribed("d", copied, height=2), bodies=(copied,))
    assert sorted(registry.matching()) == ["a", "b"]
    assert registry.item("b")["duplicates"] == 1


# -- near-identical texts ---------------------------------------------------------------------------------------------

LONG = (
    "Takes a payment by card, coin or bank transfer and pays out the same day, with receipts, refunds, invoices, "
    "disputes and monthly statements for shops, clubs and freelancers in every country that has a central bank."
)
GATEWAY = card("Gateway", description=LONG)


def subject_of(body: bytes) -> Listing:
    """A listing of a card that was just inscribed."""
    answer = inscribed("a", body).state
    assert answer is not None
    listing = Registration(
        state=answer, chain="demo", caip2="demo:regtest", card_body=body, updated_time=1, created_time=1
    )
    return listings_of(listing, read_of(answer.id, body, answer.kind))[0]


def variation(number: int, **more: Any) -> bytes:
    """A copy with another URL, one other word, and a number in its name."""
    description = LONG.replace("freelancers", f"{'abcdefghij'[number % 10] * 7}")
    return card(f"Gateway {number}", **{"description": description, "url": f"https://c{number}.example/", **more})


def test_near_identical_texts_are_one_result_that_counts_the_others(registry: Registry) -> None:
    near = [variation(number) for number in range(8)]
    registry.block("1", inscribed("a", GATEWAY), inscribed("b", BETA), bodies=(GATEWAY, BETA))
    messages = [inscribed(f"n{number}", body, height=2, owner="bob") for number, body in enumerate(near)]
    registry.block("2", *messages, bodies=tuple(near))
    result = registry.matching()
    assert set(result) == {"a", "b"}
    assert result["a"]["duplicates"] == 8
    everyone = {"a", *(f"n{number}" for number in range(8))}
    assert set(registry.matching(group=str(outpoint_of("a")))) == everyone
    assert set(registry.matching(owners=("bob",))) == everyone - {"a"}


def test_a_near_identical_text_with_other_prices_is_another_result(registry: Registry) -> None:
    """It is found by filters that the one shown would not meet."""
    one, other = (priced("Gateway", "0xabc", description=LONG, **more) for more in ({}, {"version": "2"}))
    cheap = json.loads(one)
    cheap["x-payment-config"][0]["amount"] = "0.5"
    cheaper = json.dumps(cheap).encode()
    registry.block("1", *map(inscribed, "abc", (one, other, cheaper)), bodies=(one, other, cheaper))
    assert set(registry.matching()) == {"a", "c"}


def test_another_name_is_another_result_whatever_the_text(registry: Registry) -> None:
    other = card("Till", description=LONG)
    registry.block("1", inscribed("a", GATEWAY), inscribed("b", other), bodies=(GATEWAY, other))
    assert set(registry.matching()) == {"a", "b"}
    assert set(registry.matching(text="till")) == {"b"}


def test_strangers_copies_earlier_in_the_block_do_not_take_the_place_of_the_one_its_domain_names(
    registry: Registry,
) -> None:
    copies = [inscribed(f"c{number}", BETA, owner="mallory") for number in range(3)]
    registry.block("1", *copies, inscribed("original", BETA), inscribed("other", ALPHA), bodies=(BETA, ALPHA))
    result = registry.matching(text="beta")
    assert len(set(result) & {"c0", "original"}) == 1  # one result, not the last of four
    registry.badge("original", "beta.example", BETA)
    result = registry.matching()
    assert set(result) == {"original", "other"}
    assert result["original"]["duplicates"] == 3
    assert registry.warned("original") == {}


def test_copying_a_pending_update_gains_nothing(registry: Registry) -> None:
    """The copy is registered earlier in the block that confirms the update."""
    registry.block("1", inscribed("a", ALPHA), bodies=(ALPHA,))
    registry.block("2", inscribed("thief", BETA, height=2, owner="mallory"), again("a", BETA, 2), bodies=(BETA,))
    assert set(registry.matching()) == {"a"}
    assert registry.warned("a") == {}
    assert set(registry.warned("thief")) == {"same-name", "same-url"}


def test_a_block_whose_time_goes_back_does_not_make_its_copies_the_older_ones(registry: Registry) -> None:
    registry.block("1", inscribed("a", GATEWAY), bodies=(GATEWAY,))
    registry.block("2", inscribed("copy", GATEWAY, height=2), bodies=(GATEWAY,))
    with registry.store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE blocks SET time = time - 10000 WHERE height = 2")
    assert set(registry.matching()) == {"a"}


def test_reinscribing_an_old_registration_with_a_victims_card_gains_nothing(registry: Registry) -> None:
    registry.block("1", inscribed("old", ALPHA, owner="mallory"), bodies=(ALPHA,))
    registry.block("2", inscribed("victim", GATEWAY, height=2), bodies=(GATEWAY,))
    registry.block("3", again("old", GATEWAY, 3))
    assert set(registry.matching()) == {"victim"}
    assert registry.matching()["victim"]["duplicates"] == 1


@pytest.mark.parametrize("victim_first", [True, False])
def test_in_one_block_the_older_registration_is_shown_even_if_it_copies_a_pending_one(
    registry: Registry, victim_first: bool
) -> None:
    """A limit that `docs/ranking.md` states: the opposite rule would let copies of pending updates win."""
    registry.block("1", inscribed("old", ALPHA, owner="mallory"), bodies=(ALPHA,))
    events = [inscribed("victim", GATEWAY, height=2), again("old", GATEWAY, 2)]
    registry.block("2", *(events if victim_first else events[::-1]), bodies=(GATEWAY,))
    assert set(registry.matching()) == {"old"}
    registry.badge("victim", "api.example", GATEWAY)
    assert set(registry.matching()) == {"victim"}


def test_an_update_keeps_its_seniority_and_one_back_to_an_earlier_text_has_it_again(registry: Registry) -> None:
    newer, copy = variation(1), variation(2)
    registry.block("1", inscribed("a", GATEWAY), bodies=(GATEWAY,))
    registry.block("2", inscribed("copy", copy, height=2), bodies=(copy,))
    registry.block("3", again("a", newer, 3), bodies=(newer,))
    assert set(registry.matching()) == {"a"}
    registry.block("4", replace(again("a", BETA, 4), spent=outpoint_of("a3")), bodies=(BETA,))
    assert set(registry.matching()) == {"a", "copy"}
    registry.block("5", replace(again("a", GATEWAY, 5), spent=outpoint_of("a4")))
    assert set(registry.matching()) == {"a"}
    block_writer.forget(registry.writer, "demo", 4)
    registry._prev["demo"] = "4"
    assert set(registry.matching()) == {"a", "copy"}


def gateway(address: str, amount: str = "1", title: str = "Gateway", **more: Any) -> bytes:
    """A card with a long text, of this pay-to address and price."""
    config = {"id": "basic", "name": "Basic", **PRICE, "address": address, "amount": amount}
    return card(title, **{"description": LONG, "x-payment-config": [config], **more})


THEIRS = {"title": "Gateway v2", "url": "https://theirs.example/"}
ONE, TWO = gateway("0xa11ce"), gateway("0xa11ce", "2")
COPY_OF_ONE, COPY_OF_TWO = gateway("0xbad", **THEIRS), gateway("0xbad", "2", **THEIRS)


def revised(registry: Registry, id_: str, *steps: tuple[int, bytes]) -> None:
    """Re-inscribe a registration at these heights with these cards."""
    before = outpoint_of(id_)
    for height, body in steps:
        registry.block(str(height), replace(again(id_, body, height), spent=before), bodies=(body,))
        before = outpoint_of(f"{id_}{height}")


def test_a_copy_made_while_the_owner_changes_a_price_does_not_hide_the_original(registry: Registry) -> None:
    registry.block("1", inscribed("a", ONE), bodies=(ONE,))
    revised(registry, "a", (2, TWO))
    registry.block("3", inscribed("copy", COPY_OF_ONE, height=3, owner="mallory"), bodies=(COPY_OF_ONE,))
    assert set(registry.matching()) == {"a", "copy"}  # of different prices
    for _ in range(2):
        assert registry.warned("a") == {}
        assert set(registry.warned("copy")) == {"same-name", "same-text"}
        assert all(text.endswith(str(outpoint_of("a"))) for text in registry.warned("copy").values())
        if registry.item("a")["offers"][0]["amount"] == "2":
            registry.block("4", replace(again("a", ONE, 4), spent=outpoint_of("a2")))
    assert set(registry.matching()) == {"a"} == set(registry.matching(chains=("demo",)))
    assert registry.matching()["a"]["duplicates"] == 1


def test_a_copy_with_the_price_of_a_pending_update_hides_nothing(registry: Registry) -> None:
    registry.block("1", inscribed("a", ONE), bodies=(ONE,))
    registry.block("2", inscribed("copy", COPY_OF_TWO, height=2, owner="mallory"), bodies=(COPY_OF_TWO,))
    revised(registry, "a", (3, TWO))
    assert set(registry.matching()) == {"a"} == set(registry.matching(chains=("demo",)))
    assert registry.warned("a") == {}


def test_a_copy_of_a_pending_update_with_a_new_text_is_beside_it_and_warned_of(registry: Registry) -> None:
    first = gateway("0xa11ce", description="Something else.")
    registry.block("1", inscribed("a", first), bodies=(first,))
    registry.block("2", inscribed("copy", COPY_OF_ONE, height=2, owner="mallory"), bodies=(COPY_OF_ONE,))
    revised(registry, "a", (3, ONE))
    assert set(registry.matching()) == {"a", "copy"} == set(registry.matching(chains=("demo",)))
    assert registry.warned("a") == {}
    assert set(registry.warned("copy")) == {"same-name", "same-text"}


def test_an_old_registration_that_takes_a_text_to_another_address_is_warned_of(registry: Registry) -> None:
    registry.block("1", inscribed("old", BETA, owner="mallory"), bodies=(BETA,))
    registry.block("2", inscribed("victim", ONE, height=2), bodies=(ONE,))
    revised(registry, "old", (3, COPY_OF_ONE))
    assert set(registry.matching()) == {"old", "victim"}
    assert registry.warned("victim") == {}
    assert set(registry.warned("old")) == {"same-name", "same-text"}


def test_a_copy_that_another_domain_names_is_beside_the_older_one_and_warned_of(registry: Registry) -> None:
    registry.block("1", inscribed("a", ONE), bodies=(ONE,))
    registry.block("2", inscribed("copy", COPY_OF_ONE, height=2, owner="mallory"), bodies=(COPY_OF_ONE,))
    assert set(registry.matching()) == {"a"}
    registry.badge("copy", "theirs.example", COPY_OF_ONE)
    for filters in ({}, {"chains": ("demo",)}):
        assert set(registry.matching(**filters)) == {"a", "copy"}
    assert (registry.warned("a"), set(registry.warned("copy"))) == ({}, {"same-text"})
    registry.badge("a", "api.example", ONE)  # the domain of the older one names it, too
    assert set(registry.matching()) == {"a"}


def test_a_domain_takes_its_place_back_from_an_older_copy_that_names_its_url(registry: Registry) -> None:
    theirs = gateway("0xbad")
    registry.block("1", inscribed("squatter", theirs, owner="mallory"), bodies=(theirs,))
    registry.block("2", inscribed("a", ONE, height=2), bodies=(ONE,))
    assert set(registry.matching()) == {"squatter"}
    registry.badge("a", "api.example", ONE)
    assert set(registry.matching()) == {"a"} == set(registry.matching(chains=("demo",)))
    assert registry.warned("a") == {}


@pytest.mark.parametrize(
    "more",
    [
        {"url": "https://other.example/"},
        {"address": "0xbad"},
        {"additionalInterfaces": [{"url": "https://o.example/"}]},
    ],
)
def test_a_younger_copy_that_leads_elsewhere_is_not_shown_instead_of_an_older_registration(
    registry: Registry, more: dict[str, Any]
) -> None:
    first, copy = gateway("0xa11ce", description="Something else."), gateway(**{"address": "0xa11ce"} | more)
    registry.block("1", inscribed("a", first), bodies=(first,))
    registry.block("2", inscribed("copy", copy, height=2), bodies=(copy,))
    revised(registry, "a", (3, ONE))
    assert set(registry.matching()) == {"a", "copy"}
    assert "same-text" in registry.warned("copy")


def test_a_tool_that_runs_another_command_is_not_shown_instead_of_an_older_one(registry: Registry) -> None:
    def tool(command: str, description: str = LONG) -> bytes:
        server = {"command": "npx", "args": ["-y", command], "description": description}
        return json.dumps({"mcpServers": {"gateway": server}}).encode()

    def of_kind(event: Event) -> Event:
        assert event.state is not None
        return replace(event, state=replace(event.state, kind=Kind.TOOL))

    first, copy, later = tool("gateway", "Something else."), tool("evil"), tool("gateway")
    registry.block("1", of_kind(inscribed("a", first)), bodies=(first,))
    registry.block("2", of_kind(inscribed("copy", copy, height=2)), bodies=(copy,))
    registry.block("3", of_kind(again("a", later, 3)), bodies=(later,))
    assert "a" in registry.matching()
    assert registry.warned("a") == {}


def test_a_second_tool_of_one_owner_is_warned_of_where_it_brings_another_command(registry: Registry) -> None:
    def of_kind(event: Event) -> Event:
        assert event.state is not None
        return replace(event, state=replace(event.state, kind=Kind.TOOL))

    first, same, other = (
        json.dumps(
            {"mcpServers": {"clock": {"command": "npx", "args": ["-y", package], "description": words}}}
        ).encode()
        for package, words in (("clock", "Tells the time."), ("clock", "Another text."), ("evil", "A third text."))
    )
    ids = ("a", first), ("b", same), ("c", other)
    messages = (of_kind(inscribed(id_, body, number, owner="alice")) for number, (id_, body) in enumerate(ids))
    registry.block("1", *messages, bodies=(first, same, other))
    assert registry.warned("b") == {}
    assert registry.warned("c")["same-name"].endswith(f"{outpoint_of('a')}, of the same owner; in your name?")


def test_a_name_that_is_dropped_and_used_again_was_not_taken_meanwhile(registry: Registry) -> None:
    copy = card("Alpha", url="https://copy.example/")
    registry.block("1", inscribed("a", ALPHA), bodies=(ALPHA,))
    revised(registry, "a", (2, BETA))
    registry.block("3", inscribed("copy", copy, height=3), bodies=(copy,))
    registry.block("4", replace(again("a", ALPHA, 4), spent=outpoint_of("a2")))
    assert registry.warned("a") == {}
    assert set(registry.warned("copy")) == {"same-name"}


def test_the_first_text_counts_after_any_number_of_updates(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_STRETCHES", 2)
    registry.block("1", inscribed("a", ONE), bodies=(ONE,))
    registry.block("2", inscribed("copy", COPY_OF_ONE, height=2), bodies=(COPY_OF_ONE,))
    revised(registry, "a", (3, ALPHA), (4, BETA), (5, ALPHA), (6, BETA), (7, ONE))
    assert set(registry.matching()) == {"a"}


def test_small_updates_in_a_row_do_not_carry_seniority_to_another_text() -> None:
    """Each text is like the one before; the last is not like the first."""
    words = LONG.split()
    texts = [" ".join([*(f"w{chr(97 + index)}x" for index in range(step)), *words[step:]]) for step in range(0, 26, 1)]
    history = TextKeyHistory()
    for number, text in enumerate(texts):
        subject = subject_of(card("Gateway", description=text))
        history.add([subject], Since(number, "demo", number, 0, 0))
    last = next(text_key for text_key in history.fingerprint(subject).text_keys if text_key.kind == TEXT)
    assert last.since.time > 0


@pytest.mark.parametrize("flood", [300])
def test_a_flood_of_near_identical_cards_is_one_result(registry: Registry, flood: int) -> None:
    bodies = [variation(10 * number) for number in range(flood)]
    registry.block("1", *(inscribed(f"n{index}", body) for index, body in enumerate(bodies)), bodies=tuple(bodies))
    result = registry.matching()
    assert set(result) == {"n0"}
    assert result["n0"]["duplicates"] == flood - 1
    registry.block("2", burned("n0", "n0", "gone", height=2))
    result = registry.matching()
    assert set(result) == {"n1"}
    assert result["n1"]["duplicates"] == flood - 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("PayPal agent", "PayPaI agent"),  # a capital i
        ("Paypal-Agent", "раураl agent"),  # Cyrillic
        ("Google", "G00gle"),
        ("Ολα", "Oλa"),
        ("Web Search", "web_search"),
        ("Open.AI", "ＯｐｅｎＡＩ"),
        ("Wallet", "VVallet"),
        ("wallet", "vvaIIet"),
        ("Chrome Tools", "Chrorne Tools"),
        ("Gmail", "Grnail"),
        ("Modern", "modem"),
        ("Dashboard", "clashboard"),
        ("MetaMask", "MetaMas\u200bk"),
        ("Code", "ϲode"),  # a lunate sigma
        ("rnail", "r\u200bnail"),  # an invisible letter within the sequence
        ("Alpha", "𝚨lpha"),  # a mathematical Greek letter
        ("Stroke", "Sŧrøkɇ"),
        ("Bank", "ʙᴀɴᴋ"),
        ("Bank", "🅱🅰🅽🅺"),
        ("Bank", "🇧🇦🇳🇰"),
        ("Bank", "ᗷᗅnk"),  # Canadian syllabics
        ("Cotton", "𐌂otton"),  # Old Italic
        ("Xerox", "╳erox"),
        ("2𝐧d", "2nd"),
        ("Widget™", "Widget"),
        ("圖書館", "图书馆"),
    ],
)
def test_names_that_look_alike_are_the_same(one: str, other: str) -> None:
    assert skeletons(one) & skeletons(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Agent 1", "Agent 2"), ("mail", "mall"), ("हिन्दी", "हन्दी"), ("🙂", "🙁"), ("car", "cat"), ("vow", "wow"),
        ("clam", "text key"), ("ran", "man"), ("२ रुपये", "३ रुपये"), ("ロボット", "ボット"),
    ],
)  # fmt: skip
def test_names_that_differ_are_not(one: str, other: str) -> None:
    assert not skeletons(one) & skeletons(other)


@pytest.mark.parametrize(
    "url",
    ["https://münchen.example:443/a2a", "HTTPS://XN--MNCHEN-3YA.example/a2a/", "https://u:p@münchen.EXAMPLE/a2a#top"],
)
def test_urls_are_normalised_before_they_are_compared(url: str) -> None:
    assert same_url(url) == "https://xn--mnchen-3ya.example/a2a?"


def test_other_urls_stay_apart() -> None:
    urls = [
        "https://a.example/",
        "http://a.example/",
        "https://a.example:8443/",
        "https://a.example/?x",
        "",
        "a.example",
    ]
    assert len({same_url(url) for url in urls}) == 5  # the last two have no host


@pytest.mark.parametrize("description", ["", "More words of a longer text that says what this agent does for you."])
def test_cards_that_differ_in_white_space_at_the_end_are_one_result(registry: Registry, description: str) -> None:
    first = card("Alpha", description=description)
    second = first + b" \n"
    messages = inscribed("a", first, owner="alice"), inscribed("b", second, 1, owner="alice")
    registry.block("1", *messages, inscribed("c", second, 2, owner="mallory"), bodies=(first, second))
    result = registry.matching(text="alpha")
    assert (set(result), result["a"]["duplicates"]) == ({"a"}, 2)
    assert registry.warned("b") == {}
    assert "same-name" in registry.warned("c")
