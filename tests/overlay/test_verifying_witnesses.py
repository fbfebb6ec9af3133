"""Witnesses that a server swaps (BTC, LTC): no txid covers them, so each that matters is held to what the coinbase of
its block commits to (BIP 141)."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from hashlib import sha256
from typing import Any

import pytest

from overlay.verify import VerificationReport
from overlay.verify.server_answer import HOP_MEMBERS
from overlay.verify.trusted_source import open_source
from parsers.bitcoin import beef, bump
from parsers.bitcoin.tx import Outpoint, serialise
from parsers.bitcoin.tx import read as read_tx
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import batch, body_of, p2pkh, tapscript
from tests.fakes import MemoryChain
from tests.nodes import Node
from tests.overlay import forging_server
from tests.overlay.answer_models import fits
from tests.overlay.forging_server import Look, Server, look, paths, remove, words

__all__ = ["look"]


@pytest.fixture(params=["ltc", "btc"])
def kit(request: pytest.FixtureRequest) -> ChainKit:
    return ChainKit(request.param)


@pytest.fixture
def listed(kit: ChainKit) -> Outpoint:
    """A registration that was inscribed anew and moved twice, once by a transaction with a witness, once in a block
    that holds none."""
    first = kit.reveal(agent("Echo"))
    kit.mine(first)
    second = kit.reveal(agent("Echo two"), source=first)
    kit.mine(kit.pay(), second)
    third = kit.spend([second], [(9_000, p2pkh("bob"))], witnesses=[[b"signature", b"key"]]).outpoint(0)
    kit.mine(third)
    kit.mine(kit.spend([third], [(8_000, p2pkh("carol"))]).outpoint(0))
    return first


@pytest.fixture
def server(look: Look, kit: ChainKit, listed: Outpoint) -> Server:
    return Server(look(kit, kit.chain), str(listed))


def check(server: Server, id_: object) -> VerificationReport:
    chain = server.proofs[str(id_)]["chain"]
    return forging_server.check(server, str(id_), expected=chain)


def swapped(hop: dict[str, Any], old: bytes, new: bytes) -> None:
    """Serve a transaction with other bytes in its witness; its txid stays."""
    raw = bytes.fromhex(hop["rawTx"])
    hop["rawTx"] = raw.replace(old, new).hex()
    assert hop["rawTx"] != raw.hex()
    assert read_tx(bytes.fromhex(hop["rawTx"]), segwit=True).hex_id == hop["txid"]


def stripped(hop: dict[str, Any]) -> None:
    """Serve a transaction without its witness."""
    hop["rawTx"] = bare(bytes.fromhex(hop["rawTx"])).hex()


def bare(raw: bytes) -> bytes:
    result = read_tx(raw, segwit=True)
    return serialise(result.inputs, result.outputs, result.version, result.locktime)


def test_every_witness_of_an_honest_answer_is_proved(server: Server, listed: Outpoint) -> None:
    report = check(server, listed)
    assert report.missing == []
    proof = server.proofs[str(listed)]
    fits(proof, "Proof")
    hops = [*proof["before"], proof, *proof["after"]]
    assert ["bump" in hop["witness"] for hop in hops] == [True, True, True, False]


def test_a_swapped_card_is_not_proved(server: Server, listed: Outpoint) -> None:
    id_ = str(listed)
    evil = body_of(agent("Evil two"))
    swapped(server.proofs[id_], b"Echo two", b"Evil two")
    server.cards[id_] = evil
    server.items[id_] |= {"name": "Evil two", "serverName": "Evil two", "cardSha256": sha256(evil).hexdigest()}
    assert json.loads(evil)["name"] == "Evil two"
    report = check(server, id_)
    assert "card" in report.missing
    assert "its witness is not the one that was mined" in words(report, "card")


def test_a_swapped_registration_is_not_proved(server: Server, listed: Outpoint) -> None:
    (first,) = server.proofs[str(listed)]["before"]
    swapped(first, b"Echo", b"Evil")
    report = check(server, listed)
    assert set(report.missing) == {"registration", "lineage"}
    assert "its witness is not the one that was mined" in words(report, "registration")


def test_a_revision_is_not_hidden_by_leaving_its_witness_out(look: Look, kit: ChainKit) -> None:
    """Without its witness the newest revision reads as a move, so that the card before it would be the newest."""
    first = kit.reveal(agent("Cheap"))
    kit.mine(first)
    second = kit.reveal(agent("Expensive"), source=first, type=None)
    kit.mine(second)
    answer = Server(look(kit, kit.chain), str(first))
    id_, proof = str(first), answer.proofs[str(first)]
    (old,), hop = proof["before"], {name: proof[name] for name in HOP_MEMBERS}
    stripped(hop)
    current = hop | {"outpoint": proof["outpoint"], "beef": proof["beef"]}
    path = bump.read(bytes.fromhex(old["bump"]))
    bundle = beef.write([(bare(bytes.fromhex(old["rawTx"])), path)]).hex()
    proof |= old | {"outpoint": id_, "before": [], "after": [hop], "current": current, "beef": bundle}
    answer.cards[id_] = body_of(agent("Cheap"))
    report = check(answer, id_)
    assert set(report.missing) == {"lineage", "listing"}
    assert "its witness is not the one that was mined" in words(report, "lineage")


def test_without_the_proof_of_a_witness_the_card_is_not_proved(server: Server, listed: Outpoint) -> None:
    """So it is with a server that read the block before such proofs were stored."""
    del server.proofs[str(listed)]["witness"]
    report = check(server, listed)
    assert report.missing == ["card"]
    assert "must index the chain again" in words(report, "card")


@pytest.mark.parametrize("location", ["before", "after"])
def test_without_the_proof_of_another_witness_the_way_is_not_proved(
    server: Server, listed: Outpoint, location: str
) -> None:
    del server.proofs[str(listed)][location][0]["witness"]
    report = check(server, listed)
    assert set(report.missing) == ({"registration", "lineage"} if location == "before" else {"lineage"})
    assert "must index the chain again" in words(report, "lineage")


@pytest.mark.parametrize("member", ["coinbase", "reserved", "coinbaseBump", "bump"])
@pytest.mark.parametrize("value", ["zz", 5, None])
def test_a_proof_that_cannot_be_read_is_refused(server: Server, listed: Outpoint, member: str, value: Any) -> None:
    server.proofs[str(listed)]["witness"][member] = value
    report = check(server, listed)
    assert report.missing == ["answer"]
    server.proofs[str(listed)]["witness"] = value
    assert check(server, listed).missing == (["card"] if value is None else ["answer"])


@pytest.mark.parametrize("member", ["coinbase", "reserved", "coinbaseBump", "bump"])
def test_no_part_of_the_proof_can_be_of_another_listing(server: Server, listed: Outpoint, member: str) -> None:
    proof = server.proofs[str(listed)]
    others = proof["before"][0]["witness"] | {"reserved": "11" * 32}  # all coinbases of the mint reserve zeros
    proof["witness"] |= {member: others[member]}
    assert "card" in check(server, listed).missing


@pytest.mark.parametrize("where", ["winner", "after"])
def test_a_witness_on_a_chain_that_has_none_is_refused(look: Look, where: str) -> None:
    kit = ChainKit("bsv")
    first = kit.inscribe(agent("Echo"))
    kit.mine(first)
    kit.mine(kit.move(first))
    answer = Server(look(kit, "bsv"), str(first))
    proof = answer.proofs[str(first)]
    assert check(answer, first).missing == []
    (proof if where == "winner" else proof["after"][0])["witness"] = {}
    assert check(answer, first).missing == ["answer"]


def test_every_member_of_a_proof_that_a_server_leaves_out_is_found_out(server: Server, listed: Outpoint) -> None:
    whole = server.proofs[str(listed)]
    assert check(server, listed).missing == []
    for path in paths(whole):
        server.proofs[str(listed)] = deepcopy(whole)
        remove(server.proofs[str(listed)], path)
        report = forging_server.check(server, str(listed), expected=whole["chain"])
        assert report.missing or path == ("ownerCheckedAt",), path


# -- batches and pointers (law 3a)

AGENT = {"app": "test", "type": "a2b-agent"}


def card(name: str, pointer: int | None = None) -> bytes:
    return tapscript(body_of(agent(name)), map=AGENT, pointer=pointer)


def shown(*scripts: bytes) -> tuple[bytes, ...]:
    return (b"\x51" * 64, batch(*scripts), b"\xc0" + b"\x52" * 32)


def test_every_card_of_a_batch_is_proved_by_its_own_id_and_none_by_that_of_another(look: Look, kit: ChainKit) -> None:
    outputs = [(10_000, p2pkh("alice")), (10_000, p2pkh("bob"))]
    tx = kit.spend(
        [kit.fund()],
        outputs,
        witnesses=[shown(tapscript(b"GIF", "image/gif"), card("A"), card("B", 10_000), card("C", 10_009), card("D"))],
    )
    kit.mine(tx)
    newer = kit.spend([tx.outpoint(0)], [(9_000, p2pkh("bob"))], witnesses=[shown(card("E"), card("F"))])
    kit.mine(newer)
    ids = {name: f"{tx.outpoint(vout)}{end}" for name, vout, end in
           (("F", 0, ""), ("B", 1, ""), ("C", 1, "#3"), ("D", 0, "#4"))}  # fmt: skip
    answer = Server(look(kit, kit.chain), *ids.values())
    for name, id_ in ids.items():
        assert answer.items[id_]["name"] == name
        assert check(answer, id_).missing == [], name
    id_, evil = ids["D"], body_of(agent("A"))
    answer.items[id_] |= {"name": "A", "serverName": "A", "cardSha256": sha256(evil).hexdigest()}
    answer.cards[id_] = evil
    assert {"registration", "lineage"} <= set(check(answer, id_).missing)


def test_a_card_in_a_later_input_is_proved_with_the_values_of_the_inputs(look: Look, kit: ChainKit) -> None:
    before = kit.spend([kit.fund()], [(700, p2pkh("alice")), (800, p2pkh("alice")), (900, p2pkh("alice"))])
    kit.mine(before)
    tx = kit.spend(
        [before.outpoint(0), before.outpoint(1), before.outpoint(2)],
        [(700, p2pkh("bob")), (1_500, p2pkh("carol"))],
        witnesses=[(), shown(card("Second")), shown(card("Pointed", 3))],
    )
    kit.mine(tx)
    ids = [str(tx.outpoint(vout)) for vout in (1, 0)]
    answer = Server(look(kit, kit.chain), *ids)
    for id_, name in zip(ids, ("Second", "Pointed"), strict=True):
        assert answer.items[id_]["name"] == name
        assert check(answer, id_).missing == [], name
        answer.proofs[id_]["parents"] = []
        assert "depends on the value" in words(check(answer, id_), "card")


async def test_the_value_of_an_output_is_read_from_a_transaction_with_a_witness_whatever_it_spends() -> None:
    kit = ChainKit("btc")
    async with Node(MemoryChain(*kit.blocks)) as node:
        for first in (b"\0", b"\x40", b"\xff"):  # read without the witness, it would be the length of a script
            spent = kit.spend([Outpoint(first * 32, 0)], [(9_000, p2pkh("bob"))], witnesses=[[b"signature", b"key"]])
            node.chain.unconfirmed[spent.txid] = kit.raw(spent.outpoint(0))
            trusted = open_source(node.url)
            assert await asyncio.to_thread(trusted.satoshis, spent.outpoint(0)) == 9_000
