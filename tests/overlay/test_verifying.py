"""A listing is verified without trusting the server: each forgery is detected, and what is not proved is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from copy import deepcopy
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.headers.networks import network
from indexer.store.store import Store
from overlay import verify
from overlay.listings.local_source import LocalSource
from overlay.listings.repository import ListingRepository
from overlay.verify import header_chain
from overlay.verify.header_chain import HeaderLinks
from overlay.verify.server_answer import MinedBlock, NotProvedError
from overlay.verify.trusted_source import HeaderFile
from parsers.bitcoin import beef, bump
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from parsers.bitcoin.tx import read as read_tx
from parsers.cards import Kind
from tests.chainkit import COIN, ChainKit, agent
from tests.chainkit_scripts import body_of, map_tape, p2pkh, tapscript
from tests.fakes import MemoryChain
from tests.headers import header as mined
from tests.indexing import Indexing
from tests.oracles.wire import frames, read_block
from tests.overlay.calls import TOWER
from tests.overlay.forging_server import REGTEST, UPDATED, FakeSource, Server, check, look, words
from tests.parsers.writers import from_branch

__all__ = ["look"]

NEEDED = {"transaction", "card", "registration", "block", "work", "chain", "lineage", "listing"}


@pytest.fixture(scope="module")
def store(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The sample chain in a store of its own."""
    url = f"sqlite:///{tmp_path_factory.mktemp('verify')}/a2b.db"
    chain = MemoryChain(*frames((sample / "blk00000.dat").read_bytes()), name="demo")
    with Indexing(url, chain) as indexing:
        asyncio.run(indexing.catch_up())
        yield indexing.store


@pytest.fixture(scope="module")
def honest(store: Store) -> LocalSource:
    return LocalSource(ListingRepository(store))


@pytest.fixture
def server(honest: LocalSource) -> Server:
    return Server(honest, TOWER, UPDATED)


# -- what is true ------------------------------------------------------------------------------------------------------


def test_an_honest_answer_is_proved_but_for_what_bytes_cannot_show(server: Server) -> None:
    report = check(server)
    assert report.missing == []
    outcomes = {step.step: step.outcome for step in report.steps}
    assert outcomes == dict.fromkeys(NEEDED, "proved") | {"newest": "not checked", "domain": "not checked"}
    assert list(outcomes) == [*report.as_json()["steps"][0]["step"].split(), *list(outcomes)[1:]]
    assert report.as_json()["verified"] is True
    assert "the server may leave one out" in words(report, "newest", verify.NOT_CHECKED)


def test_every_listing_is_proved_once_the_values_of_inputs_before_it_are_known(
    honest: LocalSource, store: Store, sample: Path
) -> None:
    values = {
        Outpoint(bytes.fromhex(tx.txid)[::-1], vout): out.satoshis
        for block in frames((sample / "blk00000.dat").read_bytes())
        for tx in read_block(block)
        for vout, out in enumerate(tx.outs)
    }
    ids = sorted({id_ for _, id_ in store.registrations.ids(None, 1_000)})
    assert len(ids) == 38
    alone = {id_: check(honest, id_) for id_ in ids}
    assert sum(not report.missing for report in alone.values()) == 34
    for id_, report in alone.items():
        if report.missing:
            assert set(report.missing) <= {"registration", "lineage"}
            assert "which is not in the answer" in words(report, "lineage")
            assert check(honest, id_, trusted=FakeSource(holds=True, values=values)).missing == []


def test_a_server_of_several_is_proved_by_its_own_id(honest: LocalSource, store: Store) -> None:
    failover = next(
        item["servers"] for _, id_ in store.registrations.ids(None, 1_000) if "servers" in (item := honest.listing(id_))
    )
    assert check(honest, failover[0].partition("#")[0]).missing == []
    for id_ in failover:
        assert check(honest, id_).missing == []
    crossed = Server(honest, *failover)
    crossed.items[failover[0]] = crossed.items[failover[1]] | {"id": failover[0]}
    assert check(crossed, failover[0]).missing == ["listing"]
    crossed.proofs[failover[0]] = crossed.proofs[failover[0]] | {"id": failover[1]}
    assert check(crossed, failover[0]).missing == ["answer"]
    crossed.items[failover[0]] = crossed.items[failover[1]]
    assert check(crossed, failover[0]).missing == ["answer"]


def test_a_node_of_ones_own_proves_that_nothing_is_newer(server: Server) -> None:
    report = check(server, trusted=FakeSource(holds=True, unspent=True))
    assert report.missing == []
    assert {step.step: step.outcome for step in report.steps}["newest"] == "proved"
    assert server.requests == []  # no headers are needed from the server


def test_an_outpoint_that_a_node_of_ones_own_knows_to_be_spent_is_not_verified(server: Server) -> None:
    report = check(server, trusted=FakeSource(holds=True, unspent=False))
    assert report.missing == ["newest"]
    assert report.as_json()["verified"] is False
    assert "as spent: there is a newer revision" in words(report, "newest")
    # a node that does not have the block says nothing about its outputs
    report = check(server, trusted=FakeSource(holds=None, unspent=False))
    assert report.missing == []
    assert "only your own node with the block" in words(report, "newest", verify.NOT_CHECKED)


def test_a_source_of_ones_own_that_does_not_know_the_block_leaves_it_to_the_headers(server: Server) -> None:
    assert check(server, trusted=FakeSource(holds=None)).missing == []
    report = check(server, trusted=FakeSource(holds=False))
    assert report.missing == ["chain", "lineage"]
    assert "does not have the block" in words(report, "chain")


def test_a_source_of_ones_own_on_another_chain_is_named_as_such(server: Server) -> None:
    """It does not know the block, and has another one there, or below it, or another genesis block."""
    for number in (server.proofs[UPDATED]["height"], 60, 0):
        other = [*server.headers[:number], mined(bytes(32), time=number + 1).hex()]
        report = check(server, trusted=FakeSource(holds=None, headers=other))
        assert report.missing == ["chain", "lineage"]
        assert (
            f"the chain of your own source my node does not link with the served headers: at height {number:,}"
            in words(report, "chain")
        )
    # one that has the block, and is another network's
    other = [mined(bytes(32), time=1).hex()]
    assert check(server, trusted=FakeSource(holds=True, headers=other)).missing == ["chain", "lineage"]
    source = FakeSource(holds=None, headers=server.headers[:60])
    assert check(server, trusted=source).missing == []


def test_a_file_of_headers_proves_no_height(server: Server, tmp_path: Path) -> None:
    (tmp_path / "headers").write_bytes(bytes.fromhex("".join(server.headers)))
    trusted = HeaderFile(tmp_path / "headers")
    heights = {"updatedHeight", "blockHeight", "createdHeight"}
    assert heights.isdisjoint(check(server).not_proved_members)
    report = check(server, trusted=trusted)
    assert report.missing == []
    assert heights <= set(report.not_proved_members)
    assert server.requests == [0]  # by the first of the two
    server.items[UPDATED] |= {"updatedHeight": 7}
    assert check(server, trusted=trusted).missing == ["listing"]


def test_headers_are_requested_until_there_are_enough(server: Server) -> None:
    server.page = 50
    answers: list[tuple[int, int]] = []
    report = check(server, progress=lambda done, of: answers.append((done, of)))
    assert report.missing == []
    assert server.requests == [0, 50, 100]
    assert [done for done, _ in answers] == [50, 100, 126]


# -- forgeries --------------------------------------------------------------------------------------------------------

Forgery = Callable[[Server], None]


def altered(name: str, value: object) -> Forgery:
    def forgery(server: Server) -> None:
        server.proofs[UPDATED][name] = value

    return forgery


def of_the_tower(*names: str) -> Forgery:
    def forgery(server: Server) -> None:
        for name in names:
            server.proofs[UPDATED][name] = server.proofs[TOWER][name]

    return forgery


def other_price(server: Server) -> None:
    server.items[UPDATED]["offers"] = [{"id": "x", "amount": "0"}]


def other_card(server: Server) -> None:
    server.cards[UPDATED] = server.cards[TOWER]


def other_card_with_its_hash(server: Server) -> None:
    other_card(server)
    server.items[UPDATED]["cardSha256"] = sha256(server.cards[TOWER]).hexdigest()


def other_location(server: Server) -> None:
    server.items[UPDATED]["outpoint"] = TOWER


def hidden_update(server: Server) -> None:
    """The registration is shown as it was inscribed first, and what came later as a mere move."""
    proof = server.proofs[UPDATED]
    (first,) = proof["before"]
    hop = {name: proof[name] for name in first}
    proof |= {"before": [], "after": [hop], "current": hop | {"beef": proof["beef"], "outpoint": proof["outpoint"]}}
    proof |= first | {"outpoint": UPDATED}
    server.items[UPDATED]["txid"] = UPDATED[:64]


def one_more_byte(server: Server) -> None:
    server.proofs[UPDATED]["rawTx"] += "00"


def forged_block(server: Server) -> None:
    """A block of the liar's own with the transaction alone in it, on the real chain's."""
    proof = server.proofs[UPDATED]
    txid = bytes.fromhex(proof["txid"])[::-1]
    path = from_branch(proof["height"], 0, txid, [])
    prev = sha256d(bytes.fromhex(server.headers[proof["height"] - 1]))
    forged = mined(prev, root=int.from_bytes(txid, "little"))
    proof |= {"bump": path.to_bytes().hex(), "header": forged.hex(), "blockHash": sha256d(forged)[::-1].hex()}


def lazy_block(server: Server) -> None:
    """Forge the block without work, and in the list of headers too."""
    forged_block(server)
    proof = server.proofs[UPDATED]
    raw = bytes.fromhex(proof["header"])
    lazy = mined(raw[4:36], root=int.from_bytes(raw[36:68], "little"), mined=False)
    proof |= {"header": lazy.hex(), "blockHash": sha256d(lazy)[::-1].hex()}
    server.headers[proof["height"] :] = [lazy.hex()]


def other_genesis(server: Server) -> None:
    server.headers[0] = mined(bytes(32)).hex()


def a_gap(server: Server) -> None:
    del server.headers[7]


def no_headers(server: Server) -> None:
    server.headers.clear()


def altered_item(name: str, value: object) -> Forgery:
    def forgery(server: Server) -> None:
        server.items[UPDATED][name] = value

    return forgery


UNSPENT_PARENT = serialise((TxInput(Outpoint(b"\1" * 32, 0), b"", 0),), (TxOutput(1, b"\x51" * 5),)).hex()

FORGERIES: list[tuple[Forgery, set[str], str]] = [
    (other_price, {"listing"}, "differs from card and chain in: offers"),
    *(
        (altered_item(name, value), {"listing"}, f"differs from card and chain in: {name}")
        for name, value in {
            "owner": "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
            "signer": "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
            "updatedHeight": 5,
            "blockHeight": 5,
            "timestamp": "2001-01-01T00:00:00Z",
            "status": "burned",
            "caip2": "bsv:mainnet",
            "origin": TOWER,
            "name": "Other",
            "app": "other",
            "createdHeight": 5,
            "integrity": "hash-verified",
            "anchors": [{}],
            "cheapest": {"amount": "1"},
        }.items()
    ),
    (altered_item("id", UPDATED[:64] + ".0"), {"answer"}, "the proof is of"),
    (altered("id", TOWER), {"answer"}, "the proof is of"),
    (altered("beef", "00"), {"block"}, "the version of 4 bytes runs past the end"),
    (of_the_tower("beef"), {"block"}, "the BEEF served is of transaction"),
    (altered("txid", TOWER[:64]), {"transaction"}, "and another is named"),
    (altered("current", None), {"answer"}, "current is missing"),
    (altered("current", {"outpoint": None}), {"answer"}, "rawTx is missing"),
    (altered("parents", None), {"answer"}, "parents is missing"),
    (altered("parents", [UNSPENT_PARENT]), {"lineage"}, "no transaction on the way spends"),
    (altered_item("type", "robot"), {"answer"}, "and not an agent or a tool"),
    (altered_item("type", "tool"), {"card", "registration", "lineage"}, "the card is not valid"),
    (other_card, {"card", "registration", "lineage"}, "does not inscribe these bytes"),
    (other_card_with_its_hash, {"card", "registration", "lineage"}, "does not inscribe these bytes"),
    (other_location, {"lineage"}, ", in the answer at"),
    (hidden_update, {"card", "lineage"}, "is not the one served"),
    (of_the_tower("rawTx"), {"transaction", "card", "lineage", "block"}, "and another is named"),
    (of_the_tower("bump"), {"block"}, "the merkle path is for height"),
    (of_the_tower("header", "blockHash"), {"block", "chain"}, "another root than the header's"),
    (of_the_tower("blockHash"), {"block"}, "not that of the block named"),
    (of_the_tower("bump", "header", "blockHash", "height"), {"block"}, "does not hold transaction"),
    (altered("bump", "00"), {"block"}, "runs past the end"),
    (altered("before", []), {"lineage"}, "and not the one that the id names"),
    (altered("before", None), {"lineage"}, "does not hold the transactions"),
    (forged_block, {"chain"}, "do not hold the block"),
    (lazy_block, {"work", "chain"}, "does not meet its own target"),
    (other_genesis, {"chain"}, "the headers begin with"),
    (a_gap, {"chain"}, "which is not known"),
    (no_headers, {"chain"}, "the answers end at header 0"),
    (altered("height", 121), {"block", "chain"}, "the merkle path is for height"),
    (one_more_byte, {"answer"}, "is not a transaction"),
    (altered("height", True), {"answer"}, "height is missing or cannot be read"),
    (altered("chain", "eip155:1"), {"answer"}, "does not support"),
    (altered("chain", "bsv:mainnet"), {"chain"}, "bsv:regtest is expected"),
    (altered("after", ["zz"]), {"answer"}, "after is missing or cannot be read"),
    (altered("before", [{}] * 2_001), {"answer"}, "before is missing or cannot be read"),
    (altered("blockHash", "00"), {"answer"}, "blockHash is missing or cannot be read"),
    (altered("outpoint", "nowhere"), {"answer"}, "is not an outpoint"),
    (altered("outpoint", UPDATED[:64] + "_7"), {"transaction", "card", "lineage"}, "and another is named"),
]


@pytest.mark.parametrize(("forgery", "steps", "why"), FORGERIES, ids=range(len(FORGERIES)))
def test_every_forgery_is_detected_and_named(server: Server, forgery: Forgery, steps: set[str], why: str) -> None:
    server.items, server.proofs = deepcopy(server.items), deepcopy(server.proofs)
    forgery(server)
    report = check(server)
    assert set(report.missing) >= steps
    assert any(why in step.detail for step in report.steps if step.outcome == verify.NOT_PROVED), report.steps
    assert report.as_json()["verified"] is False


def test_a_hidden_update_is_not_found_out_by_bytes_but_by_a_node(
    server: Server, honest: LocalSource, store: Store
) -> None:
    """All that the server says of the first revision was true once: only `newest` is not proved."""
    history = honest.repository.history(UPDATED)
    first = history[-1]

    stored = store.proofs.get("demo", first.event.txid)
    assert stored is not None
    card = store.content.cards([first.event.card])[first.event.card]
    path = bump.read(stored.proof.bump)
    proof = server.proofs[UPDATED] | {
        "rawTx": stored.proof.raw.hex(), "bump": stored.proof.bump.hex(), "header": stored.ref.header.hex(),
        "height": stored.ref.height, "blockHash": stored.ref.hash[::-1].hex(), "before": [], "after": [],
        "outpoint": UPDATED, "txid": UPDATED[:64], "beef": beef.write([(stored.proof.raw, path)]).hex(),
    }  # fmt: skip
    from overlay.listings import item_json
    from overlay.text.timestamps import timestamp
    from parsers import cards

    server.proofs[UPDATED], server.cards[UPDATED] = proof, card
    server.items[UPDATED] |= item_json.card_fields(cards.read(card, Kind.AGENT)) | {
        "txid": UPDATED[:64], "outpoint": UPDATED, "cardSha256": sha256(card).hexdigest(),
        "updatedHeight": stored.ref.height, "blockHeight": stored.ref.height,
        "timestamp": timestamp(stored.ref.time),
        "owner": first.event.owner, "cheapest": item_json.cheapest_json(cards.read(card, Kind.AGENT).offers),
    }  # fmt: skip
    assert check(server).missing == []
    report = check(server, trusted=FakeSource(holds=True, unspent=False))
    assert report.missing == ["newest"]
    assert "there is a newer revision" in words(report, "newest")


def test_an_answer_about_something_else_is_no_answer(server: Server) -> None:
    server.items[UPDATED] = server.items[TOWER]
    report = check(server)
    assert report.missing == ["answer"]
    assert "the answer is about" in report.steps[0].detail


def test_a_network_where_blocks_cost_nothing_proves_nothing_unless_it_is_expected(server: Server) -> None:
    report = check(server, expected=None)
    assert report.missing == ["chain"]
    assert "give --chain bsv:regtest" in words(report, "chain")
    assert check(server, expected=None, trusted=FakeSource(holds=None)).missing == ["chain"]


def test_a_network_where_blocks_cost_nothing_is_worth_what_the_users_own_source_says_of_it(server: Server) -> None:
    assert check(server, expected=None, trusted=FakeSource(holds=True)).missing == []
    report = check(server, expected=None, trusted=FakeSource(holds=False))
    assert report.missing == ["chain", "lineage"]
    assert "does not have the block" in words(report, "chain")
    assert check(server, expected="bsv:mainnet", trusted=FakeSource(holds=True)).missing == ["chain"]


def test_a_transaction_of_64_bytes_proves_nothing(server: Server) -> None:
    """CVE-2017-12842: the middle of a merkle tree served as a transaction."""
    spent = TxInput(Outpoint(b"\1" * 32, 0), b"", 0)
    short = serialise((spent,), (TxOutput(1, b"\x51" * 4),))
    assert len(short) == 64
    txid = read_tx(short).hex_id
    server.proofs[TOWER] = server.proofs[TOWER] | {"rawTx": short.hex(), "txid": txid, "outpoint": f"{txid}_0"}
    server.items[TOWER]["txid"] = txid
    assert "two nodes of a merkle tree" in words(check(server, TOWER), "transaction")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
    | st.sampled_from(["00" * 80, "00" * 32, "01" * 60, TOWER, REGTEST, "agent"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=80)
@given(data=st.data())
def test_whatever_is_answered_there_is_a_report(server: Server, data: st.DataObject) -> None:
    server.items, server.proofs = deepcopy(server.items), deepcopy(server.proofs)
    for answer in (server.items[UPDATED], server.proofs[UPDATED]):
        for name in data.draw(st.sets(st.sampled_from(sorted(answer)), max_size=3)):
            answer[name] = data.draw(junk)
    server.headers = [*server.headers]
    trusted = data.draw(st.sampled_from([FakeSource(holds=True), FakeSource(holds=True), None]))
    if trusted is None:
        server.headers[data.draw(st.integers(0, 125))] = data.draw(junk)
    report = check(server, trusted=trusted)
    assert report.as_json()["verified"] is not bool(report.missing)


def test_an_inscription_in_a_witness_is_proved_with_the_values_of_the_inputs_before_it(
    look: Callable[..., LocalSource],
) -> None:
    kit = ChainKit("ltc")
    first = kit.reveal(agent("First"))
    witness = (b"\x51" * 64, tapscript(body_of(agent("Second"))), b"\xc0" + b"\x52" * 32)
    outputs = [(COIN, p2pkh("bob")), (5, p2pkh("carol")), (0, map_tape({"app": "test", "type": "a2b-agent"}))]
    second = kit.spend([kit.fund(), kit.fund()], outputs, witnesses=[(), witness]).outpoint(1)
    kit.mine(first, second)
    moved = kit.move(first)
    kit.mine(moved)
    answer = look(kit, "ltc")
    trusted = FakeSource(holds=True, unspent=True)
    report = check(answer, str(first), trusted=trusted, expected="ltc:regtest")
    assert report.missing == []
    report = check(answer, str(second), trusted=trusted, expected="ltc:regtest")
    assert report.missing == []
    server = Server(answer, str(second))
    server.proofs[str(second)]["parents"] = []
    report = check(server, str(second), trusted=trusted, expected="ltc:regtest")
    assert set(report.missing) == {"card", "registration", "lineage"}
    assert "depends on the values of the inputs before it" in words(report, "card")


def test_a_satoshi_that_was_burned_is_followed_to_its_end(look: Callable[..., LocalSource]) -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("First"))
    kit.mine(first)
    burned = kit.burn(first)
    kit.mine(burned)
    answer = look(kit, "bsv")
    trusted = FakeSource(holds=True)
    report = check(answer, str(first), trusted=trusted)
    assert report.missing == []
    assert words(report, "newest", "proved") == "the satoshi is burned, which is final"
    server = Server(answer, str(first))
    hop = server.proofs[str(first)]["after"][0] | {"rawTx": kit.raw(kit.fund()).hex()}
    server.proofs[str(first)]["after"].append(hop)
    assert "is burned before transaction" in words(check(server, str(first), trusted=trusted), "lineage")
    server.proofs[str(first)]["after"] = [hop]
    assert "does not spend" in words(check(server, str(first), trusted=trusted), "lineage")


def test_a_server_that_gives_header_by_header_is_given_up(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    server.page = 1
    monkeypatch.setattr(header_chain, "MAX_PAGES", 5)
    report = check(server)
    assert "5 answers held no more than 5 headers of" in words(report, "chain")


# -- linking to real checkpoints --------------------------------------------------------------------------------------


def link(
    header: bytes, height: int, fetch: Callable[[int], list[bytes]], trusted: FakeSource | None = None,
    coin: str = "bsv", name: str = "mainnet",
) -> str:  # fmt: skip
    """How one block is linked to its chain."""
    block = MinedBlock(path=b"", hash=sha256d(header), height=height, header=header)
    return HeaderLinks(network(coin, name), [block], fetch, trusted, no_progress).sentence(block)


def pages(headers: list[bytes], first: int, size: int = 700) -> Callable[[int], list[bytes]]:
    return lambda position: headers[position - first : position - first + size]


def no_progress(done: int, of: int) -> None:
    assert done > 0
    assert of > 0


@pytest.fixture(scope="session")
def recent(shared: Path) -> list[bytes]:
    """Real headers 886,001 to 888,000 of Bitcoin SV; the last is a packaged checkpoint."""
    raw = (shared / "vectors/bsv/blocks/886001_888000_headers.bin").read_bytes()
    return [raw[index : index + 80] for index in range(0, len(raw), 80)]


def test_a_block_below_a_checkpoint_is_linked_by_hash_up_to_it(recent: list[bytes]) -> None:
    message = link(recent[999], 887_000, pages(recent, 886_001))
    assert message == "1,001 headers: linked by hash up to the packaged checkpoint 888,000"
    assert link(recent[-1], 888_000, pages(recent, 886_001)).startswith("1 headers: it is itself")


def test_a_header_changed_below_a_checkpoint_breaks_the_chain(recent: list[bytes]) -> None:
    forged = [*recent]
    forged[1_200] = forged[1_200][:-1] + bytes((forged[1_200][-1] ^ 1,))
    with pytest.raises(NotProvedError):
        link(recent[999], 887_000, pages(forged, 886_001))
    other = recent[999][:-1] + bytes((recent[999][-1] ^ 1,))
    with pytest.raises(NotProvedError, match="do not hold the block at height 887,000"):
        link(other, 887_000, pages(recent, 886_001))
    with pytest.raises(NotProvedError, match="do not hold the block at height 887,001"):
        link(recent[999], 887_001, pages(recent, 886_001))


@pytest.mark.parametrize("coin", ["bsv", "btc"])
def test_a_block_above_a_checkpoint_is_linked_by_work_and_required_bits(shared: Path, coin: str) -> None:
    raw = (shared / "vectors/overlay/headers/mainnet-headers-2016.raw").read_bytes()
    headers = [raw[index : index + 80] for index in range(0, len(raw), 80)]
    message = link(headers[1_500], 1_500, pages(headers, 0), coin=coin)
    assert message.startswith("2,017 headers from the genesis block of")
    assert "516 of them above the block" in message
    assert "required bits" in message
    easy = mined(sha256d(headers[1_500]), time=int.from_bytes(headers[1_500][68:72], "little") + 600)
    with pytest.raises(NotProvedError, match="its bits"):
        link(easy, 1_501, pages([*headers[:1_501], easy], 0), coin=coin)


@pytest.mark.parametrize(
    ("coin", "name", "height", "why"),
    [
        ("btc", "testnet4", 5, "no rule of required bits"),
        ("doge", "mainnet", 5_500_000, "other chains' headers"),
    ],
)
def test_where_required_bits_or_work_cannot_be_checked_a_source_of_ones_own_is_required(
    coin: str, name: str, height: int, why: str
) -> None:
    with pytest.raises(NotProvedError, match=why):
        link(bytes(80), height, lambda _: pytest.fail("not asked"), coin=coin, name=name)
    assert link(bytes(80), height, lambda _: [], FakeSource(holds=True), coin, name)


def test_the_fewest_headers_are_requested() -> None:
    bsv = network("bsv", "mainnet")
    assert header_chain.span(bsv, 887_990) == (887_990, 888_000, 888_000)
    assert header_chain.span(bsv, 888_010) == (885_984, 888_010, 888_000)
    assert header_chain.span(bsv, 774_000) == (771_024, 774_000, 773_040)
    assert header_chain.span(bsv, 0) == (0, 0, 0)
    assert header_chain.span(network("bsv", "regtest"), 5) == (0, 5, 0)


# -- a file of headers ------------------------------------------------------------------------------------------------


def test_a_file_of_headers_has_the_blocks_of_its_headers(tmp_path: Path) -> None:
    headers = [bytes([number]) * 80 for number in range(1, 6)]
    joined = b"".join(headers)
    for name, text in {
        "raw": joined,
        "lines": b"\n".join(header.hex().encode() for header in headers),
        "dos": b"\r\n".join(header.hex().encode() for header in headers) + b"\r\n",
    }.items():
        path = tmp_path / name
        path.write_bytes(text)
        source = HeaderFile(path)
        assert source.name == str(path)
        assert [source.holds(header, 0) for header in headers] == [True] * 5
        assert source.holds(b"\1" * 40 + b"\2" * 40, 0) is None
        assert source.unspent(Outpoint(bytes(32), 0)) is None
    (tmp_path / "empty").write_bytes(b"")
    assert HeaderFile(tmp_path / "empty").holds(headers[0], 0) is None
    with pytest.raises(OSError, match="No such file"):
        HeaderFile(tmp_path / "missing")
