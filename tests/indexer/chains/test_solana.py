"""Stories of accounts: opened, written again, made to point elsewhere, closed, opened again; and of restarts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from indexer.model import Event, EventKind, Status
from indexer.store import StoreError, block_writer
from parsers.bitcoin.tx import Outpoint
from parsers.cards.strict_json import MAX_BYTES
from tests.chain_records import anchors
from tests.chainkit import agent, tool
from tests.indexer.chains.following import Restartable
from tests.indexing import Indexing
from tests.solana_server import SolanaServer, named

CARD = hashlib.sha256(b"a card").digest()


class World(Restartable):
    """A server, and an indexer of it that can be begun again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SolanaServer(), f"sqlite:///{folder}/solana.db")

    async def look(self) -> list[Event]:
        """The events that a new look adds."""
        newest = self.indexing.store.blocks.newest("sol")
        await self.indexing.catch_up()
        return self.events(newest.height if newest else -1)

    def events(self, above: int = -1) -> list[Event]:
        """All that was said above a slot."""
        return [past.event for past in self.indexing.store.history.select() if past.height > above]

    async def changes(self) -> list[tuple[str, str]]:
        """The kinds of the events that a new look adds, each with its account (by the name that the test gave it)."""
        return [(event.kind.value, self.name(event.txid)) for event in await self.look()]

    def name(self, account: bytes) -> str:
        names = {bytes(named(name)): name for name in ("a", "b", "c", "d")}
        return names[account]

    def history(self, name: str) -> list[tuple[str, str, int]]:
        """Kind, status afterwards and height of all that happened to what an account registers."""
        past = self.indexing.store.history.of(self.server.id(name))
        return [
            (item.event.kind.value, item.event.state.status.value, item.height) for item in past if item.event.state
        ]


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path) as created:
        yield created


def pointer(uri: str = "https://echo.example/.well-known/agent.json", digest: bytes | None = CARD) -> dict[str, Any]:
    return {"uri": uri} if digest is None else {"uri": uri, "hash": digest.hex()}


# -- cards in full


async def test_accounts_that_carry_cards_are_registered_at_the_slot_of_the_first_look(world: World) -> None:
    server = world.server
    server.put("a", agent("Echo"), room=300)
    server.put("b", tool("clock"))
    server.put("c", agent("Foreign"), mark=b"xyz\0")
    server.hold("d", b"a2b\0" + json.dumps(agent("Other program's")).encode(), named("another program"))
    assert sorted(await world.changes()) == [("inscribed", "a"), ("inscribed", "b")]
    (past,) = world.indexing.store.history.of(server.id("a"))
    state = past.event.state
    assert state is not None
    body = json.dumps(agent("Echo")).encode()
    outpoint = Outpoint(bytes(named("a")), 0)
    assert (past.event.txid, past.event.outpoint, state.outpoint, state.winner) == (
        outpoint.txid,
        outpoint,
        outpoint,
        outpoint,
    )
    assert (state.id, state.kind, state.status) == (f"{server.caip2}:{named('a')}", "agent", Status.LIVE)
    assert (state.card, past.event.card) == (hashlib.sha256(body).digest(),) * 2
    assert world.indexing.store.content.cards([state.card])[state.card] == body, (
        "the zero bytes of unused room are not a card"
    )
    assert (state.updated_height, state.created_height, past.height) == (server.slot,) * 3
    assert (past.hash, past.time) == (bytes(server.block(server.slot)), server.time)
    assert world.indexing.store.chains() == {"sol": server.caip2}
    assert len(server.caip2) == len("solana:") + 32


async def test_only_looks_that_differ_are_stored(world: World) -> None:
    assert await world.changes() == []
    first = world.indexing.store.blocks.newest("sol")
    assert first is not None
    for _ in range(3):
        world.server.advance(10)
        assert await world.changes() == []
    assert world.indexing.store.blocks.newest("sol") == first
    world.server.put("a", agent())
    assert await world.changes() == [("inscribed", "a")]
    newest = world.indexing.store.blocks.newest("sol")
    assert newest is not None
    assert (newest.height, newest.prev) == (world.server.slot, first.hash)


async def test_a_card_written_again_is_a_new_revision_and_a_closed_account_is_burned(world: World) -> None:
    server = world.server
    server.put("a", agent("One"))
    await world.look()
    one = server.slot
    server.put("a", agent("Two"))
    assert await world.changes() == [("reinscribed", "a")]
    two = server.slot
    server.shut("a")
    assert await world.changes() == [("burned", "a")]
    assert world.history("a") == [
        ("inscribed", "live", one), ("reinscribed", "live", two), ("burned", "burned", server.slot),
    ]  # fmt: skip
    last = world.indexing.store.history.of(server.id("a"))[-1].event
    assert last.state is not None
    assert (last.state.created_height, last.state.updated_height, last.state.outpoint) == (one, two, None)
    assert [reason.sentence for reason in last.reasons] == ["the account was closed"]
    assert world.indexing.store.registrations.counts("sol")["burned"] == 1


async def test_an_account_opened_again_is_a_first_record_again(world: World) -> None:
    server = world.server
    server.put("a", agent("One"))
    await world.look()
    server.shut("a")
    await world.look()
    server.put("a", tool("clock"))
    assert await world.changes() == [("inscribed", "a")]
    state = world.indexing.store.history.of(server.id("a"))[-1].event.state
    assert state is not None
    assert (state.kind, state.status, state.created_height) == ("tool", Status.LIVE, server.slot)


async def test_closed_and_opened_again_between_two_looks_is_no_difference(world: World) -> None:
    world.server.put("a", agent())
    await world.look()
    world.server.shut("a")
    world.server.put("a", agent(), room=7)
    assert await world.changes() == []


async def test_a_broken_card_does_not_silence_a_registration_and_is_rejected_without_one(world: World) -> None:
    server = world.server
    server.put("a", agent("One"))
    server.put("b", b'{"name": 7')
    assert sorted(await world.changes()) == [("inscribed", "a"), ("rejected", "b")]
    server.put("a", b"\xff\xfe")
    assert await world.changes() == [("invalid", "a")]
    assert world.history("a")[-1][1] == "live"
    past = world.indexing.store.history.of(server.id("a"))[-1].event
    assert (past.valid, [reason.code for reason in past.reasons]) == (False, ["card-utf8"])
    assert past.state is not None
    assert past.state.card == hashlib.sha256(json.dumps(agent("One")).encode()).digest()
    loose = [event for event in world.events() if event.kind is EventKind.REJECTED]
    assert [(event.reasons[0].code, event.state) for event in loose] == [("card-json", None)]
    server.put("a", agent("One"))
    assert await world.changes() == [("reinscribed", "a")]
    server.put("b", agent("Good at last"))
    assert await world.changes() == [("inscribed", "b")]


async def test_a_card_of_the_other_kind_changes_nothing(world: World) -> None:
    world.server.put("a", agent())
    await world.look()
    world.server.put("a", tool())
    assert await world.changes() == [("foreign_content", "a")]
    event = world.indexing.store.history.of(world.server.id("a"))[-1].event
    assert [reason.code for reason in event.reasons] == ["kind-changed"]
    assert event.state is not None
    assert event.state.kind == "agent"
    assert await world.changes() == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "card-json"),
        (b"[]", "card-object"),
        (b" " * (MAX_BYTES + 1), "card-size"),
        (b'{"name":"x"}', "card-skills"),
        (b'{"mcpServers":{}}', "config-no-server"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "card-nesting"),
        (b'{"name":"\\ud800","url":"https://a.example","skills":[{"id":"a"}]}', "card-surrogate"),
    ],
)
async def test_what_is_no_card_is_rejected_with_its_reason_and_once(world: World, body: bytes, code: str) -> None:
    world.server.put("a", body)
    assert await world.changes() == [("rejected", "a")]
    (event,) = world.events()
    assert code in [reason.code for reason in event.reasons]
    assert (event.valid, event.card) == (False, hashlib.sha256(body).digest())
    await world.restart()
    assert await world.changes() == []
    world.server.shut("a")
    assert await world.changes() == []
    world.server.put("a", body)
    assert await world.changes() == [], "it is known already, whether or not there was a look in between"


# -- pointers


async def test_a_pointer_is_recorded_with_its_hash_and_named_by_its_domain(world: World) -> None:
    world.server.put("a", pointer())
    world.server.put("b", pointer("ipfs://bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy", None))
    assert sorted(await world.changes()) == [("pointed", "a"), ("pointed", "b")]
    (anchor,) = anchors(world.indexing.store, "echo.example")
    answer = anchor.event.pointer
    assert answer is not None
    assert (answer.id, answer.digest, answer.form, anchor.event.valid) == ("echo.example", CARD, "solana", True)
    assert (anchor.event.outpoint, anchor.height) == (Outpoint(bytes(named("a")), 0), world.server.slot)
    assert await world.changes() == []
    await world.restart()
    assert await world.changes() == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"uri": "http://echo.example/"}, "pointer-uri"),
        ({"uri": "https://127.0.0.1/", "hash": CARD.hex()}, "pointer-domain"),
        ({"uri": "https://echo.example/", "hash": "00"}, "pointer-hash"),
        ({"uri": 7}, "pointer-uri"),
        ({"uri": "\ud800\x00"}, "pointer-uri"),
    ],
)
async def test_a_pointer_that_is_none_is_recorded_with_its_reason_and_once(
    world: World, body: dict[str, Any], code: str
) -> None:
    world.server.put("a", body)
    assert await world.changes() == [("pointed", "a")]
    (event,) = world.events()
    assert (event.valid, [reason.code for reason in event.reasons]) == (False, [code])
    for _ in range(2):
        world.server.advance()
        assert await world.changes() == []
        await world.restart()
    world.server.shut("a")
    assert await world.changes() == [], "nothing that was accepted has ended"


def withdrawn(event: Event) -> bool:
    return event.kind is EventKind.POINTED and [reason.code for reason in event.reasons] == ["pointer-withdrawn"]


async def test_a_pointer_of_a_closed_account_is_taken_back_at_the_same_place(world: World) -> None:
    world.server.put("a", pointer())
    await world.look()
    world.server.shut("a")
    assert await world.changes() == [("pointed", "a")]
    first, last = anchors(world.indexing.store, "echo.example")
    assert withdrawn(last.event)
    assert (last.event.valid, last.event.outpoint, last.height) == (False, first.event.outpoint, world.server.slot)
    assert last.event.pointer == first.event.pointer
    await world.restart()
    assert await world.changes() == []
    world.server.put("a", pointer())
    assert await world.changes() == [("pointed", "a")]
    assert anchors(world.indexing.store, "echo.example")[-1].event.valid


async def test_another_pointer_replaces_the_one_before_at_the_same_place(world: World) -> None:
    world.server.put("a", pointer())
    await world.look()
    world.server.put("a", pointer(digest=None))
    assert await world.changes() == [("pointed", "a")]
    world.server.put("a", pointer("https://other.example/.well-known/agent.json"))
    assert await world.changes() == [("pointed", "a")]
    events = world.events()
    assert [event.valid for event in events] == [True] * 3
    assert [event.pointer.id for event in events if event.pointer] == ["echo.example", "echo.example", "other.example"]
    assert len({event.outpoint for event in events}) == 1


async def test_a_pointer_written_another_way_is_no_difference(world: World) -> None:
    world.server.put("a", pointer())
    await world.look()
    world.server.put("a", json.dumps(dict(reversed(pointer().items())), indent=2).encode())
    assert await world.changes() == []


async def test_a_pointer_gives_way_to_a_card_to_a_broken_pointer_and_to_rubbish(world: World) -> None:
    after: list[tuple[Any, str]] = [(agent(), "inscribed"), ({"uri": "ftp://x"}, "pointed"), (b"rubbish", "rejected")]
    for body, then in after:
        world.server.put("a", pointer())
        await world.look()
        world.server.put("a", body)
        first, second = await world.look()
        assert withdrawn(first)
        assert (second.kind, withdrawn(second), second.position) == (then, False, 1)


async def test_a_card_that_gives_way_to_a_pointer_is_burned(world: World) -> None:
    world.server.put("a", agent())
    await world.look()
    world.server.put("a", pointer())
    assert await world.changes() == [("burned", "a"), ("pointed", "a")]
    assert world.history("a")[-1][1] == "burned"
    await world.restart()
    assert await world.changes() == []
    world.server.put("a", agent())
    assert await world.changes() == [("pointed", "a"), ("inscribed", "a")]


# -- restarts


async def test_changes_in_a_pause_are_reported_after_a_restart(world: World) -> None:
    for name in "abc":
        world.server.put(name, agent(name))
    await world.look()
    await world.restart()
    world.server.put("a", agent("another"))
    world.server.shut("b")
    world.server.put("d", pointer())
    assert sorted(await world.changes()) == [("burned", "b"), ("pointed", "d"), ("reinscribed", "a")]


async def test_changes_that_were_not_stored_are_delivered_again_with_later_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.server.put("a", agent("One"))
    await world.look()

    def refuse(*_: Any, **__: Any) -> None:
        raise StoreError("the disk is full")

    world.server.put("a", agent("Two"))
    with monkeypatch.context() as patched:
        patched.setattr(block_writer, "append", refuse)
        with pytest.raises(StoreError, match="the disk is full"):
            await world.look()
    world.server.put("b", agent("Other"))
    assert sorted(await world.changes()) == [("inscribed", "b"), ("reinscribed", "a")]


async def test_two_chains_of_a_database_do_not_know_each_others_accounts(tmp_path: Path) -> None:
    async with SolanaServer() as server, SolanaServer("another cluster") as other:
        server.put("a", agent("One"))
        other.put("a", agent("Another"))
        with Indexing(f"sqlite:///{tmp_path}/two.db") as indexing:
            indexing.chains = (server.chain(indexing.source_store), other.chain(indexing.source_store, name="sol2"))
            await indexing.catch_up()
            await indexing.catch_up()
            for chain, of in zip(indexing.chains, (server, other), strict=True):
                assert chain.sparse
                (past,) = indexing.store.history.of(of.id("a"))
                assert past.chain == chain.name
                await chain.close()
