"""Events of registry entries from the logs of an identity registry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains.evm.erc8004.entries import RegistryBlock, RegistryEntry, agent_numbers, resolve_logs
from indexer.chains.evm.responses import Log
from indexer.model import Event, EventKind, RegistrationState, Status
from parsers.cards import Kind
from parsers.pointers.erc8004 import entry_id
from tests import registry_kit as kit
from tests.oracles.continuity import check_event
from tests.registry_kit import MAINNET, NOBODY, data_uri, file

ALICE, BOB, CAROL = "0x" + "a1" * 20, "0x" + "b0" * 20, "0x" + "ca" * 20
ENTRY = entry_id("eip155:1", MAINNET, 22)
HTTPS = "https://weather.example/agent.json"
NAMELESS = data_uri({"type": file()["type"], "name": ""})
TOOL = file("Sky Tool", services=[{"name": "MCP", "endpoint": "https://sky.example/mcp"}])


@dataclass
class Registry:
    """A registry's chain: each block is a list of transactions, each a list of logs. With `forgets`, what is known of
    entries before a block is only what a store would tell: the newest event of each."""

    forgets: bool = False
    height: int = 99
    events: list[tuple[int, Event]] = field(default_factory=list)
    cards: dict[bytes, bytes] = field(default_factory=dict)
    stood: dict[str, RegistryEntry] = field(default_factory=dict)

    def mine(self, *transactions: Sequence[kit.Log]) -> list[Event]:
        self.height += 1
        logs = []
        for tx_index, transaction in enumerate(transactions):
            txid = sha256(f"{self.height}:{tx_index}".encode()).digest()
            for log in transaction:
                position = (self.height, bytes(32), txid, tx_index, len(logs))
                logs.append(Log(bytes.fromhex(MAINNET[2:]), log.topics, log.data, *position))
        if self.forgets:
            ids = {entry_id("eip155:1", MAINNET, agent) for agent in agent_numbers(logs)}
            self.stood = {id_: RegistryEntry.after(self.newest(id_)) for id_ in ids}
        answers = resolve_logs(RegistryBlock("eip155:1", MAINNET, self.height), logs, self.stood)
        assert [event.position for event in answers.events] == list(range(len(answers.events)))
        self.cards |= answers.cards
        for event in answers.events:
            self.check(event)
            self.events.append((self.height, event))
        return list(answers.events)

    def newest(self, id_: str) -> Event | None:
        about = [event for _, event in self.events if id_ in (event.state and event.state.id, name(event))]
        return about[-1] if about else None

    def state(self, id_: str = ENTRY) -> RegistrationState | None:
        return next((item.state for _, item in reversed(self.events) if item.state and item.state.id == id_), None)

    def check(self, event: Event) -> None:
        before = self.state(event.state.id) if event.state else None
        check_event(event, self.height, before, self.cards)
        assert event.outpoint is not None
        assert event.outpoint.txid == event.txid


def name(event: Event) -> str | None:
    return event.pointer.id if event.pointer else None


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind.value for event in events]


def born(uri: str, agent: int = 22, owner: str = ALICE) -> list[kit.Log]:
    """The logs of a registration, as the contract writes them."""
    wallet = kit.metadata_set(agent, "agentWallet", bytes.fromhex(owner[2:]))
    return [kit.transfer(agent, NOBODY, owner), wallet, kit.registered(agent, uri, owner)]


def test_a_file_on_chain_is_one_registration_event_with_owner_and_metadata() -> None:
    chain = Registry()
    [event] = chain.mine(born(data_uri(file())))
    assert event.kind is EventKind.INSCRIBED
    state = event.state
    assert state is not None
    assert (state.id, state.kind, state.status, state.owner) == (ENTRY, Kind.AGENT, Status.LIVE, ALICE)
    assert state.map == {"agentWallet": ALICE}
    assert (state.created_height, state.updated_height) == (100, 100)
    assert state.outpoint == state.winner == event.outpoint
    assert event.outpoint is not None
    assert event.outpoint.vout == 2, "the number of the log in its block"
    assert json.loads(chain.cards[state.card]) == file()


def test_a_new_file_is_a_revision_by_any_of_the_owners_operators() -> None:
    chain = Registry()
    chain.mine(born(data_uri(file())))
    first = chain.state()
    [event] = chain.mine([kit.uri_updated(22, data_uri(TOOL), CAROL)])
    assert (event.kind, event.owner) == (EventKind.REINSCRIBED, ALICE)
    state = chain.state()
    assert first is not None
    assert state is not None
    assert (state.kind, state.updated_height, state.created_height) == (Kind.TOOL, 101, 100)
    assert event.spent == first.outpoint
    assert state.winner == event.outpoint != first.winner


def test_a_broken_file_does_not_silence_the_one_before() -> None:
    chain = Registry()
    chain.mine(born(data_uri(file())))
    for uri, code in ((NAMELESS, "card-name"), ("data:,{", "card-json"), ("tinybanana", "pointer-uri"), ("", None)):
        [event] = chain.mine([kit.uri_updated(22, uri, ALICE)])
        assert (event.kind, event.valid) == (EventKind.INVALID, False)
        assert event.reasons[0].code == (code or "entry-no-uri")
        assert event.reasons[0].sentence
    state = chain.state()
    assert state is not None
    assert (state.updated_height, state.card) == (100, sha256(json.dumps(file()).encode()).digest())


def test_a_file_elsewhere_is_a_pointer_by_the_name_of_the_entry() -> None:
    chain = Registry()
    [event] = chain.mine(born(HTTPS))
    pointer = event.pointer
    assert pointer is not None
    assert (event.kind, event.valid, event.owner, event.state) == (EventKind.POINTED, True, ALICE, None)
    assert (pointer.id, pointer.locator, pointer.domain) == (ENTRY, HTTPS, "weather.example")
    assert (pointer.digest, pointer.form) == (None, "erc8004")


@pytest.mark.parametrize(
    ("uri", "locator"),
    [
        ("https://weather.example/.well-known/agent-card.json", "weather.example"),
        ("ipfs://QmejyApDo3cTWH48Wby7cbcjfYS4qzG7hZJJzdSJhQziou", "ipfs://QmejyApDo3cTWH48Wby7cbcjfYS4qzG7hZJJzdSJhQziou"),
        ("QmejyApDo3cTWH48Wby7cbcjfYS4qzG7hZJJzdSJhQziou", "ipfs://QmejyApDo3cTWH48Wby7cbcjfYS4qzG7hZJJzdSJhQziou"),
    ],
)  # fmt: skip
def test_what_a_file_elsewhere_is_fetched_by_is_named_as_for_any_pointer(uri: str, locator: str) -> None:
    [event] = Registry().mine(born(uri))
    assert event.pointer is not None
    assert (event.valid, event.pointer.id, event.pointer.locator) == (True, ENTRY, locator)


@pytest.mark.parametrize(
    ("uri", "code"),
    [("", "entry-no-uri"), ("cd", "pointer-uri"), ("http://a.example", "pointer-uri"), (NAMELESS, "card-name")],
)
def test_an_entry_that_leads_nowhere_is_a_pointer_with_reasons_that_keeps_its_owner(uri: str, code: str) -> None:
    chain = Registry(forgets=True)
    [event] = chain.mine(born(uri))
    assert event.pointer is not None
    assert (event.kind, event.valid, event.pointer.id, event.pointer.locator) == (EventKind.POINTED, False, ENTRY, None)
    assert [reason.code for reason in event.reasons] == [code]
    [later] = chain.mine([kit.uri_updated(22, data_uri(file()), CAROL)])
    assert (later.kind, later.owner) == (EventKind.INSCRIBED, ALICE)


@pytest.mark.parametrize("forgets", [False, True])
def test_an_entry_changes_hands(forgets: bool) -> None:
    chain = Registry(forgets)
    chain.mine(born(data_uri(file())), born(HTTPS, 23))
    cleared = kit.metadata_set(22, "agentWallet", b"")
    there, elsewhere = chain.mine([cleared, kit.transfer(22, ALICE, BOB)], [kit.transfer(23, ALICE, BOB)])
    assert (there.kind, there.owner) == (EventKind.MAP_ONLY, BOB)
    state = chain.state()
    assert state is not None
    assert (state.owner, state.map, state.updated_height) == (BOB, {"agentWallet": ""}, 100)
    assert (elsewhere.kind, elsewhere.owner, elsewhere.state) == (EventKind.MOVED, BOB, None)
    assert elsewhere.pointer is not None
    assert elsewhere.pointer.locator == HTTPS
    assert kinds(chain.mine([kit.transfer(22, BOB, CAROL)])) == ["moved"]
    assert kinds(chain.mine([kit.transfer(22, CAROL, CAROL)])) == []


@pytest.mark.parametrize("forgets", [False, True])
def test_an_entry_that_had_its_file_on_chain_points_elsewhere_and_comes_back(forgets: bool) -> None:
    chain = Registry(forgets)
    chain.mine(born(data_uri(file())))
    [event] = chain.mine([kit.uri_updated(22, HTTPS, ALICE)])
    assert (event.kind, name(event), event.valid) == (EventKind.POINTED, ENTRY, True)
    assert event.state is not None, "what it carried stays known"
    for message in (
        [kit.transfer(22, ALICE, BOB)],
        [kit.metadata_set(22, "k", b"v")],
        [kit.uri_updated(22, "junk", BOB)],
    ):
        [event] = chain.mine(message)
        assert (event.owner, name(event)) == (BOB, ENTRY), "it still leads elsewhere"
    assert kinds(chain.mine([kit.transfer(22, BOB, ALICE)])) == ["moved"]
    assert kinds(chain.mine([kit.uri_updated(22, data_uri(TOOL), BOB)])) == ["reinscribed"]
    [event] = chain.mine([kit.transfer(22, ALICE, CAROL)])
    assert (event.kind, name(event)) == (EventKind.MOVED, None), "nothing leads elsewhere any more"
    state = chain.state()
    assert state is not None
    assert (state.owner, state.kind) == (CAROL, Kind.TOOL)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_burned_entry_is_over(forgets: bool) -> None:
    chain = Registry(forgets)
    chain.mine(born(data_uri(file())), born(HTTPS, 23))
    ends = chain.mine([kit.transfer(22, ALICE, NOBODY)], [kit.transfer(23, ALICE, NOBODY)])
    assert kinds(ends) == ["burned", "burned"]
    assert [event.owner for event in ends] == [None, None]
    state = chain.state()
    assert state is not None
    assert (state.status, state.outpoint, state.owner) == (Status.BURNED, None, None)
    assert not ends[1].valid
    assert chain.mine([kit.uri_updated(22, data_uri(file()), ALICE)], [kit.uri_updated(23, HTTPS, ALICE)]) == []


def test_an_entry_from_before_reading_began_is_read_from_its_next_event() -> None:
    chain = Registry()
    assert chain.mine([kit.transfer(22, ALICE, BOB)], [kit.metadata_set(22, "k", b"v")]) == []
    [event] = chain.mine([kit.uri_updated(22, HTTPS, CAROL)])
    assert (event.kind, event.owner) == (EventKind.POINTED, BOB)
    forgetful = Registry(forgets=True)
    forgetful.mine([kit.transfer(22, ALICE, BOB)])
    [event] = forgetful.mine([kit.uri_updated(22, HTTPS, CAROL)])
    assert (event.kind, event.owner) == (EventKind.POINTED, None)
    [event] = forgetful.mine([kit.transfer(22, BOB, CAROL)])
    assert (event.kind, event.owner) == (EventKind.MOVED, CAROL)


def test_metadata_is_kept_as_text_within_bounds() -> None:
    chain = Registry()
    chain.mine(born(data_uri(file())))
    messages = [kit.metadata_set(22, f"key {n}", str(n).encode()) for n in range(100)]
    strange = [
        kit.metadata_set(22, b"\xff", b"no text"), kit.metadata_set(22, "", b"no key"),
        kit.metadata_set(22, "k" * 257, b"long"), kit.metadata_set(22, "long", b"v" * 1025),
        kit.metadata_set(22, "key 1", b"\x00\xff"),
    ]  # fmt: skip
    [event] = chain.mine(messages + strange)
    state = chain.state()
    assert event.kind is EventKind.MAP_ONLY
    assert state is not None
    assert len(state.map) == 64
    assert (state.map["key 0"], state.map["key 1"], state.map["agentWallet"]) == ("0", "0x00ff", ALICE)
    assert not {"", "long"} & state.map.keys()


def test_several_uris_of_one_transaction_are_events_in_order() -> None:
    chain = Registry()
    events = chain.mine([*born(HTTPS), kit.uri_updated(22, data_uri(file()), ALICE), kit.transfer(22, ALICE, BOB)])
    assert kinds(events) == ["pointed", "inscribed"]
    assert [event.owner for event in events] == [BOB, BOB]


def test_a_log_that_is_none_of_a_registry_is_rejected_with_its_reason() -> None:
    wrong = kit.transfer(22, ALICE, BOB)
    [event] = Registry().mine([kit.Log(wrong.topics[:3], b"")])
    assert (event.kind, event.valid) == (EventKind.REJECTED, False)
    assert event.reasons[0].code == "pointer-encoding"


URIS = st.sampled_from(["", HTTPS, "https://other.example/", NAMELESS, data_uri(file()), data_uri(TOOL), "junk"])
OWNERS = st.sampled_from([ALICE, BOB, CAROL])
AGENTS = st.integers(1, 2)
LOGS = st.one_of(
    st.builds(kit.uri_updated, AGENTS, URIS, OWNERS),
    st.builds(kit.transfer, AGENTS, OWNERS, OWNERS),
    st.builds(kit.metadata_set, AGENTS, st.sampled_from(["app", "agentWallet"]), st.binary(max_size=3)),
)
BURNS = st.lists(st.builds(kit.transfer, AGENTS, OWNERS, st.just(NOBODY)), max_size=1)
TRANSACTIONS = st.one_of(
    st.builds(born, URIS, AGENTS, OWNERS),
    st.lists(LOGS, min_size=1, max_size=4),
    st.builds(lambda message, burn: message + burn, st.lists(LOGS, max_size=2), BURNS),
)
HISTORIES = st.lists(st.lists(TRANSACTIONS, max_size=3), min_size=1, max_size=8)


@given(HISTORIES)
def test_what_a_store_remembers_is_enough_to_go_on(history: list[list[list[kit.Log]]]) -> None:
    # an entry that was never reported is not remembered, so all are made first
    first = [[born(HTTPS, 1), born(data_uri(file()), 2)]]
    whole, forgetful = Registry(), Registry(forgets=True)
    for transactions in first + history:
        assert whole.mine(*transactions) == forgetful.mine(*transactions)


@given(HISTORIES)
def test_the_last_word_of_the_logs_decides_as_a_slow_reader_finds(history: list[list[list[kit.Log]]]) -> None:
    chain = Registry()
    for transactions in history:
        chain.mine(*transactions)
    for agent in (1, 2):
        state = chain.state(entry_id("eip155:1", MAINNET, agent))
        owner, card, over = last_word(agent, [log for block in history for message in block for log in message])
        assert (state.card if state else None) == card
        if state is not None:
            assert (state.status is Status.BURNED) == over
            assert state.owner == (None if over else owner)


def last_word(agent: int, logs: Sequence[kit.Log]) -> tuple[str | None, bytes | None, bool]:
    """Owner and newest good file on chain of an entry, and whether it was burned: read from the logs' bytes alone."""
    owner: str | None = None
    card: bytes | None = None
    spoke = over = False
    good = {data_uri(item).encode(): sha256(json.dumps(item).encode()).digest() for item in (file(), TOOL)}
    for log in logs:
        is_transfer = not log.data
        if int.from_bytes(log.topics[3 if is_transfer else 1], "big") != agent or over:
            continue
        if is_transfer:
            to = f"0x{log.topics[2][12:].hex()}"
            owner, over = (None, spoke) if to == NOBODY else (to, False)
        elif len(log.data) > 32 and log.topics[0] != kit.metadata_set(1, "", b"").topics[0]:
            size = int.from_bytes(log.data[32:64], "big")
            spoke, card = True, good.get(log.data[64 : 64 + size], card)
            if log.topics[0] == kit.registered(1, "", ALICE).topics[0]:
                owner = f"0x{log.topics[2][12:].hex()}"
    return owner, card, over
