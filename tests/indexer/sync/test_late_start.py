"""Law 3 where reading began late: a card on a satoshi with a past is undecided until its origin is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.chains import AncestorVisitor
from indexer.diagnosis.diagnoser import Diagnoser
from indexer.errors import SourceUnavailableError
from indexer.headers.networks import by_caip2, is_complete_from
from indexer.model import BlockRef, RegistrationState
from indexer.resolution import origins
from indexer.resolution import output_envelopes as one_sat
from indexer.store import block_writer
from indexer.sync import follower as follow
from overlay.listings.item_json import listing_json
from overlay.listings.listing import listings_of
from overlay.listings.repository import ListingRepository
from overlay.listings.stored_proofs import proof
from overlay.projection.documents import DocumentReader
from parsers import cards
from parsers.bitcoin.tx import Outpoint, Transaction
from tests.chainkit import COIN, ChainKit, agent, tool
from tests.chainkit_scripts import body_of, inscription, p2pkh
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.registry import read_chain

AGENT = {"app": "test", "type": "a2b-agent"}
SAME = ("type", "map", "status", "outpoint", "owner", "card", "updatedHeight", "winner")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let undecided events be retried at every look."""
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.0)


def agree(indexing: Indexing, kit: ChainKit, *ids: Outpoint) -> None:
    """These are all that is known, and are as an independent reader of the whole chain finds them."""
    whole = {
        registration["id"]: registration
        for registration in read_chain(block.raw for block in kit.branch()).registrations
    }
    registrations = indexing.records()["registrations"]
    assert {item["id"] for item in registrations} == {str(id_) for id_ in ids}
    for ours in registrations:
        assert {name: ours[name] for name in SAME} == {name: whole[ours["id"]][name] for name in SAME}


def names(indexing: Indexing) -> list[str]:
    """The ids of undecided listings."""
    return [
        registration["id"]
        for registration in indexing.records()["registrations"]
        if registration["status"] == "undecided"
    ]


def rounds(chain: MemoryChain) -> int:
    """How many ancestors the source was asked for since this was looked at last."""
    count = len(chain.fetched)
    chain.fetched.clear()
    return count


# -- what the start decides -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caip2", "start", "complete"),
    [
        ("bsv:mainnet", 783_968, True),
        ("bsv:mainnet", 783_969, False),
        ("bsv:regtest", 1, True),
        ("bsv:regtest", 2, False),
        ("bip122:000000000019d6689c085ae165831e93", 767_431, False),
        ("bip122:12a765e31ffd4059bada1e25190f6e98", 2_257_920, True),
        ("bip122:12a765e31ffd4059bada1e25190f6e98", 2_257_921, False),
        ("bch:regtest", 900, True),
        ("eip155:1", 9, True),
    ],
)
def test_a_start_is_complete_where_nothing_can_be_registered_before(caip2: str, start: int, complete: bool) -> None:
    assert is_complete_from(caip2, start) is complete


async def test_a_start_at_the_first_possible_record_traces_nothing_and_has_a_state_hash(
    kit: ChainKit, url: str
) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    kit.mine(kit.update(first, agent("Two")))
    chain = MemoryChain(*kit.blocks, first=1)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert (chain.fetched, chain.requests) == ([], [])
        assert indexing.hashes([3]) == {3: read_chain(block.raw for block in kit.blocks).state_hashes[3]}


async def test_a_late_start_has_no_state_hash_though_nothing_is_undecided(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    kit.mine(kit.move(first))
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
        assert indexing.records()["registrations"] == []  # a move alone tells nothing
        assert indexing.hashes([3]) == {3: None}


# -- what a trace finds -----------------------------------------------------------------------------------------------


async def test_an_update_after_a_late_start_belongs_to_the_registration_made_before(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"), map={"keep": "this"})
    kit.mine(first)
    moved = kit.move(first, owner="bob")
    kit.mine(moved)
    message = kit.map_only(moved, {"color": "red"})
    kit.mine(message)
    kit.mine_empty(1)
    update, new = kit.update(message, agent("Two"), map=None), kit.inscribe(agent("New"))
    kit.mine(update, new)
    kit.mine(kit.move(update, owner="carol"))
    chain = MemoryChain(*kit.blocks, first=5)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, first, new)
        assert indexing.registration(first)["map"] == {**AGENT, "keep": "this", "color": "red"}
        assert indexing.kinds(first) == ["reinscribed", "moved"]
        states = [past.event.state for past in indexing.store.history.of(str(first))]
        assert {state.created_height for state in states if state} == {2}
        proved = proof(indexing.store, str(first))
        assert (proved.winner.outpoint, proved.before) == (update, None)
        block_writer.forget(indexing.writer, "demo", -1)
        indexing.restart()
        await indexing.catch_up()
        agree(indexing, kit, first, new)


async def test_the_value_of_what_a_card_spends_is_kept(kit: ChainKit, url: str) -> None:
    kit.mine_empty(1)
    new = kit.inscribe(agent())
    kit.mine(new)
    chain = MemoryChain(*kit.blocks, first=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert chain.fetched == [kit["1"].txids[0]]
        block_writer.forget(indexing.writer, "demo", -1)
        indexing.restart()
        await indexing.catch_up()
        agree(indexing, kit, new)
        assert len(chain.fetched) == 1


async def test_kind_is_decided_at_the_registration_and_its_card_is_shown(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(tool("clock"), "a2b-mcp")
    moved = kit.move(first)
    kit.mine(first)
    kit.mine(moved)
    kit.mine(kit.update(moved, agent("Not a tool"), map=AGENT))
    with Indexing(url, MemoryChain(*kit.blocks, first=4)) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, first)
        assert indexing.kinds(first) == ["foreign_content"]
        listing = ListingRepository(indexing.store).listing(str(first))
        assert listing is not None
        assert (listing.state.updated_height, listing.updated_time) == (2, None)
        assert listing.card_body == body_of(tool("clock"))
        (document,) = DocumentReader(indexing.store).documents([str(first)])
        assert (document.status, document.updated_height, document.kind) == ("live", 2, "tool")


async def test_a_body_without_map_is_an_update_where_there_is_a_registration_and_else_a_near_miss(
    kit: ChainKit, url: str
) -> None:
    first, stranger = kit.inscribe(agent("One")), kit.inscribe(agent("Two"), None)
    kit.mine(first)
    update = kit.update(first, agent("Three"), map=None)
    kit.mine(update, stranger)
    chain = MemoryChain(*kit.blocks, first=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, first)
        assert indexing.rejections() == [(str(stranger), "no MAP record")]


async def test_the_past_is_followed_through_several_inputs_and_within_one_block(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    fund, script = kit.fund(), inscription(body_of(agent("Two")), {}, "alice")
    moved = kit.spend([fund, first], [(COIN - 1, p2pkh("x")), (1, p2pkh("y")), (1, p2pkh("z"))])
    update = kit.spend([kit.fund(), moved.outpoint(2)], [(COIN, p2pkh("x")), (1, script)])
    kit.mine(moved, update)
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, first)


async def test_a_satoshi_that_was_among_others_since_carries_nothing(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    merged = kit.spend([first, kit.fund()], [(2, p2pkh("alice")), (COIN - 1, p2pkh("x"))])
    kit.mine(merged)
    script = inscription(body_of(agent("Two")), AGENT, "alice")
    new = kit.spend([merged.outpoint(0)], [(1, script), (1, p2pkh("x"))]).outpoint(0)
    kit.mine(new)
    with Indexing(url, MemoryChain(*kit.blocks, first=4)) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, new)


async def test_an_unconfirmed_update_of_an_earlier_registration_is_pending(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    kit.mine_empty(2)
    chain = MemoryChain(*kit.blocks, first=3)
    with Indexing(url, chain) as indexing:
        await indexing.refresh()
        update, new = kit.update(first, agent("Two")), kit.inscribe(agent("New"))
        chain.unconfirmed = {item.txid: kit.raw(item) for item in (update, new)}
        await indexing.refresh()
        messages = {event.state.id: event.kind.value for event in indexing.store.pending.events("demo") if event.state}
        assert messages == {str(first): "reinscribed", str(new): "inscribed"}
        shown = ListingRepository(indexing.store).listing(str(first))
        assert shown is not None
        kit.mine(update, new)
        chain.arrive(*kit.blocks)
        await indexing.refresh()
        agree(indexing, kit, first, new)


# -- undecidable updates ----------------------------------------------------------------------------------------------


async def test_a_card_whose_past_cannot_be_read_is_undecided_and_says_why_until_it_can(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    moved = kit.move(first)
    kit.mine(moved)
    update = kit.update(moved, agent("Two"))
    kit.mine(update)
    kit.mine(kit.move(update, owner="carol"))
    chain = MemoryChain(*kit.blocks, first=4)
    chain.lost.add(moved.txid)
    missing = f"transaction {moved.txid[::-1].hex()} cannot be had"
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert names(indexing) == [str(update)]
        assert indexing.store.registrations.counts("demo")["undecided"] == 1
        assert indexing.registration(update)["revisions"][0]["reason"].endswith(missing)
        diagnosis = Diagnoser(indexing.store, {"demo": by_caip2("bsv:regtest")}).by_name(str(update))
        assert [step["code"] for step in diagnosis["steps"] if not step["ok"]] == ["origin-unknown"]
        assert diagnosis["listed"] == []
        listing = ListingRepository(indexing.store).listing(str(update))
        assert listing is not None
        assert listing.card_body is not None
        (subject,) = listings_of(listing, cards.read(listing.card_body, listing.state.kind))
        shown = listing_json(subject)
        assert (shown["status"], shown["name"], shown["timestamp"] is None) == ("undecided", "Two", False)
        assert [warning["code"] for warning in shown["warnings"]][-1] == "origin-unknown"
        assert [document.status for document in DocumentReader(indexing.store).documents([str(update)])] == [
            "undecided"
        ]
        indexing.restart()
        chain.lost.clear()
        await indexing.catch_up()
        agree(indexing, kit, first)
        assert indexing.store.history.undecided("demo") == []


async def test_an_unconfirmed_card_whose_past_cannot_be_read_is_undecided(kit: ChainKit, url: str) -> None:
    kit.mine_empty(3)
    chain = MemoryChain(*kit.blocks, first=3)
    new = kit.inscribe(agent())
    chain.lost.add(kit["1"].txids[0])
    chain.unconfirmed[new.txid] = kit.raw(new)
    with Indexing(url, chain) as indexing:
        await indexing.refresh()
        assert [event.kind.value for event in indexing.store.pending.events("demo")] == ["undecided"]
        listing = ListingRepository(indexing.store).listing(str(new))
        assert listing is not None
        assert listing.undecided is not None


async def test_raw_bytes_are_diagnosed_as_undecided_after_a_late_start(kit: ChainKit, url: str) -> None:
    kit.mine_empty(3)
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
        raw = kit.raw(kit.inscribe(agent()))
        answer = Diagnoser(indexing.store, {"demo": by_caip2("bsv:regtest")}).by_raw(raw)
        assert [record["outcome"] for record in answer["records"]] == ["undecided"]


async def test_by_ordinal_theory_nothing_is_traced(url: str) -> None:
    kit = ChainKit("ltc")
    first = kit.reveal(agent("One"))
    kit.mine(first)
    new = kit.reveal(agent("Two"))
    kit.mine(new)
    chain = MemoryChain(*kit.blocks, coin="ltc", first=3)
    with Indexing(url, chain) as indexing:
        for _ in range(2):
            await indexing.catch_up()
            assert names(indexing) == [str(new)]
            assert [past.event.reasons[0].code for past in indexing.store.history.undecided("demo")] == [
                "origin-untraced"
            ]
            assert (chain.fetched, indexing.hashes([3])) == ([], {3: None})


# -- bounds -----------------------------------------------------------------------------------------------------------


def wander(kit: ChainKit, times: int) -> tuple[Outpoint, Outpoint]:
    """A registration, and an update of it after so many moves in a block each."""
    first = tx = kit.inscribe(agent("One"))
    kit.mine(first)
    for _ in range(times):
        tx = kit.move(tx)
        kit.mine(tx)
    update = kit.update(tx, agent("Two"))
    kit.mine(update)
    return first, update


@pytest.mark.parametrize(("times", "existing"), [(3, True), (4, False)])
async def test_a_satoshi_is_traced_through_so_many_transactions(
    kit: ChainKit, url: str, monkeypatch: pytest.MonkeyPatch, times: int, existing: bool
) -> None:
    monkeypatch.setattr(origins, "HOPS", 4)
    first, update = wander(kit, times)
    chain = MemoryChain(*kit.blocks, first=kit.tip.height)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        if existing:
            agree(indexing, kit, first)
            return
        assert names(indexing) == [str(update)]
        assert "more than 4 times" in indexing.registration(update)["revisions"][0]["reason"]
        rounds(chain)
        await indexing.catch_up()
        assert rounds(chain) == 0  # more time does not help


async def test_a_thousand_transactions_are_traced_but_not_while_a_block_waits(kit: ChainKit, url: str) -> None:
    first = kit.inscribe(agent("One"))
    tx = kit.spend([first], [(1, p2pkh("alice"))])
    path = [tx]
    for number in range(998):
        tx = kit.spend([tx.outpoint(0)], [(1, p2pkh("alice"))], locktime=number)
        path.append(tx)
    kit.mine(first, *path)
    script = inscription(body_of(agent("Two")), AGENT, "alice")
    kit.mine(kit.spend([tx.outpoint(0), kit.fund()], [(1, script), (COIN, p2pkh("x"))]))
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
        assert len(names(indexing)) == 1
        await indexing.catch_up()
        agree(indexing, kit, first)


async def test_one_search_fetches_so_much_and_the_rest_is_looked_for_later(
    kit: ChainKit, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origins, "FETCHED", 3)
    pays = [kit.pay(satoshis=9_000) for _ in range(8)]
    kit.mine(*pays)
    new = [kit.inscribe(agent(f"Agent {number}"), source=pay) for number, pay in enumerate(pays)]
    kit.mine(*new)
    chain = MemoryChain(*kit.blocks, first=3)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert rounds(chain) == 3
        assert len(names(indexing)) == 5
        await indexing.catch_up()
        agree(indexing, kit, *new)


async def test_a_chain_of_cards_on_one_satoshi_of_unknown_past_is_traced_once(kit: ChainKit, url: str) -> None:
    first = tx = kit.inscribe(agent("One"))
    kit.mine(first)
    for _ in range(20):
        tx = kit.move(tx)
        kit.mine(tx)
    start = kit.tip.height + 1
    for number in range(20):
        tx = kit.update(tx, agent(f"Again {number}"))
        kit.mine(tx)
    chain = MemoryChain(*kit.blocks, first=start)
    chain.lost.add(kit["5"].txids[-1])
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert rounds(chain) <= 20 + 3 * 20
        assert len(names(indexing)) == 20
        chain.lost.clear()
        await indexing.catch_up()
        agree(indexing, kit, first)


async def test_a_chain_of_cards_within_one_block_is_judged_once(
    kit: ChainKit, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []
    judge = origins.Replay.judge

    def count(
        self: origins.Replay, state: RegistrationState | None, transaction: Transaction, vout: int
    ) -> RegistrationState | None:
        judged.append(transaction.txid)
        return judge(self, state, transaction, vout)

    monkeypatch.setattr(origins.Replay, "judge", count)
    first = tx = kit.inscribe(agent("One"))
    stranger = kit.inscribe(agent("Two"), None)
    kit.mine(first)
    updates = [stranger, kit.update(stranger, agent("Three"), map=AGENT)]
    for number in range(30):
        tx = kit.update(tx, agent(f"Again {number}"))
        updates.append(tx)
    kit.mine(*updates)
    with Indexing(url, MemoryChain(*kit.blocks, first=3)) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, first, updates[1])
        assert indexing.rejections() == [(str(stranger), "no MAP record")]
        assert indexing.kinds(first) == ["reinscribed"] * 30
        assert len(judged) == 1 + 29 + 1


async def test_so_many_cards_of_one_block_are_traced_and_a_part_of_them_at_a_time(
    kit: ChainKit, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_sat, "TRACED_AT_ONCE", 2)
    monkeypatch.setattr(one_sat, "MOST_TRACED", 6)
    kit.mine_empty(1)
    new = [kit.inscribe(agent(f"Agent {number}")) for number in range(8)]
    kit.mine(*new)
    chain = MemoryChain(*kit.blocks, first=3)
    with Indexing(url, chain) as indexing:
        for _ in range(2):
            await indexing.catch_up()
            assert indexing.live() == {str(item) for item in new[:6]}
            assert names(indexing) == [str(item) for item in new[6:]]


async def test_a_retry_looks_at_some_undecided_events_and_the_next_one_at_others(
    kit: ChainKit, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RETRIED", 2)
    pays = [kit.pay(satoshis=9_000) for _ in range(5)]
    kit.mine(*pays)
    for number, pay in enumerate(pays):
        kit.mine(kit.inscribe(agent(f"Agent {number}"), source=pay))
    chain = MemoryChain(*kit.blocks, first=3)
    chain.lost = {pay.txid for pay in pays}
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        looked = []
        for _ in range(3):
            chain.fetched.clear()
            await indexing.catch_up()
            looked.append(set(chain.fetched))
        assert [len(item) for item in looked] == [2, 2, 2]
        assert set().union(*looked) == chain.lost


async def test_a_source_that_is_away_does_not_make_a_card_undecided(kit: ChainKit, url: str) -> None:
    first, _ = wander(kit, 1)
    chain = Away(*kit.blocks, first=kit.tip.height)
    with Indexing(url, chain) as indexing:
        with pytest.raises(SourceUnavailableError):
            await indexing.catch_up()
        assert indexing.store.blocks.newest("demo") is None
        chain.is_away = False
        await indexing.catch_up()
        agree(indexing, kit, first)


class Away(MemoryChain):
    """A source that does not answer when it is asked for ancestors."""

    is_away = True

    async def ancestors(self, before: BlockRef, visit: AncestorVisitor) -> None:
        if self.is_away:
            raise SourceUnavailableError("no route")
        await super().ancestors(before, visit)


async def test_heights_of_another_branch_are_not_kept(kit: ChainKit, url: str) -> None:
    kit.mine_empty(2)
    first = kit.inscribe(agent("One"))
    update = kit.update(first, agent("Two"))
    fork = kit.tip
    kit.mine(first)
    kit.mine(update)
    chain = MemoryChain(*kit.blocks, first=kit.tip.height)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        agree(indexing, kit, first)
        assert indexing.registration(first)["revisions"][0]["height"] == 5
        kit.mine(parent=fork)
        kit.mine(first)
        kit.mine(update)
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        state = indexing.store.history.of(str(first))[-1].event.state
        assert state is not None
        assert state.created_height == 5
