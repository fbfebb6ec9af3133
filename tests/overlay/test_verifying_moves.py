"""Transfers that a server invents: without a block of the chain for each, neither owner, place nor status is proved."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from overlay.listings import item_json
from overlay.listings.local_source import LocalSource
from overlay.verify import VerificationReport
from parsers import cards
from parsers.bitcoin import address, beef
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from parsers.bitcoin.tx import read as read_tx
from parsers.cards import Kind
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import p2pkh, tapscript
from tests.headers import header as mined
from tests.overlay.forging_server import FakeSource, Look, Server, check, look, words
from tests.parsers.writers import from_branch

__all__ = ["look"]

LOCATION_MEMBERS = {"owner", "outpoint", "status"}


@pytest.fixture
def listed(kit: ChainKit) -> Outpoint:
    """A registration that was updated once and moved once, each in a block of its own."""
    first = kit.inscribe(agent("First"))
    kit.mine(first)
    second = kit.update(first, agent("Second"))
    kit.mine(second)
    kit.mine(kit.move(second, "carol"))
    return first


@pytest.fixture
def server(look: Look, kit: ChainKit, listed: Outpoint) -> Server:
    return Server(look(kit, "bsv"), str(listed))


def invent(server: Server, id_: str, *outputs: TxOutput, **more: Any) -> dict[str, Any]:
    """Let the server show that the satoshi moved on, by a transaction that nobody signed or mined."""
    item, proof = server.items[id_], server.proofs[id_]
    parsed = Outpoint.parse(item["outpoint"])
    raw = serialise((TxInput(parsed, b"", 0),), outputs)
    txid = read_tx(raw).hex_id
    hop = {"txid": txid, "rawTx": raw.hex(), **more}
    location = f"{txid}_0" if outputs[0].satoshis == 1 else None
    proof["after"] = [*proof["after"], hop]
    proof["current"] = hop | {"outpoint": location, "beef": proof["beef"]}
    item["outpoint"] = location
    return hop


def move_to_mallory(server: Server, id_: str, **more: Any) -> dict[str, Any]:
    hop = invent(server, id_, TxOutput(1, p2pkh("mallory")), **more)
    server.items[id_]["owner"] = address.owner(p2pkh("mallory"), "bsv", "regtest")
    return hop


def burn(server: Server, id_: str, **more: Any) -> dict[str, Any]:
    hop = invent(server, id_, TxOutput(2, p2pkh("mallory")), **more)
    server.items[id_] |= {"owner": None, "status": "burned"}
    return hop


def mine(hop: dict[str, Any], height: int, prev: bytes = bytes(32)) -> dict[str, Any]:
    """A block of the liar's own with nothing but this transaction, at a height."""
    txid = bytes.fromhex(hop["txid"])[::-1]
    header = mined(prev, root=int.from_bytes(txid, "little"))
    path = from_branch(height, 0, txid, [])
    raw = bytes.fromhex(hop["rawTx"])
    return {
        "bump": path.to_bytes().hex(), "blockHash": sha256d(header)[::-1].hex(), "height": height,
        "header": header.hex(), "beef": beef.write([(raw, path)]).hex(),
    }  # fmt: skip


def put(server: Server, id_: str, proof: dict[str, Any]) -> None:
    """Give the last hop a proof."""
    bundle = proof.pop("beef")
    server.proofs[id_]["after"][-1] |= proof
    server.proofs[id_]["current"] |= proof | {"beef": bundle}


def test_every_move_of_an_honest_answer_is_proved_to_be_in_a_block(server: Server, listed: Outpoint) -> None:
    report = check(server, str(listed))
    assert report.missing == []
    assert "after 3 transactions, each in a block of the chain" in words(report, "lineage", "proved")
    assert set(report.not_proved_members).isdisjoint(LOCATION_MEMBERS | {"createdHeight", "app"})
    assert server.requests == [0]  # one range of headers for all


@pytest.mark.parametrize("invented", [move_to_mallory, burn])
def test_a_transfer_in_no_block_is_not_believed(server: Server, listed: Outpoint, invented: Any) -> None:
    hop = invented(server, str(listed))
    check_refused(check(server, str(listed)), hop, "does not prove that it is in a block")
    # a node of one's own that has the winner's block changes nothing
    check_refused(
        check(server, str(listed), trusted=FakeSource(holds=True)), hop, "does not prove that it is in a block"
    )


@pytest.mark.parametrize("invented", [move_to_mallory, burn])
@pytest.mark.parametrize("position", [-1, 0, 10**9])
def test_a_transfer_in_a_block_of_the_liars_own_is_not_believed(
    server: Server, listed: Outpoint, invented: Any, position: int
) -> None:
    hop = invented(server, str(listed))
    prev = sha256d(bytes.fromhex(server.headers[-2]))
    put(server, str(listed), mine(hop, len(server.headers) + position, prev))
    why = "do not hold the block" if position < 0 else "the answers end at header" if position == 0 else "headers away"
    check_refused(check(server, str(listed)), hop, why)


def test_a_transfer_with_the_proof_of_another_transaction_is_not_believed(server: Server, listed: Outpoint) -> None:
    real = server.proofs[str(listed)]["after"][0]
    hop = move_to_mallory(server, str(listed))
    put(server, str(listed), {name: real[name] for name in ("bump", "blockHash", "height", "header")} | {"beef": ""})
    server.proofs[str(listed)]["current"]["beef"] = server.proofs[str(listed)]["beef"]
    check_refused(check(server, str(listed)), hop, "does not hold transaction")


def check_refused(report: VerificationReport, hop: dict[str, Any], why: str) -> None:
    assert report.missing == ["lineage"]
    assert why in words(report, "lineage")
    assert hop["txid"] in words(report, "lineage")
    assert set(report.not_proved_members) >= LOCATION_MEMBERS
    assert {"name", "offers", "updatedHeight"}.isdisjoint(report.not_proved_members)


@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize("member", ["bump", "blockHash", "height", "header", "txid"])
def test_a_hops_proof_is_held_to_its_block(server: Server, listed: Outpoint, name: str, member: str) -> None:
    proof = server.proofs[str(listed)]
    (hop,) = proof[name]
    proof[name] = [hop | {member: proof[member]}]
    if name == "after":
        proof["current"] |= {member: proof[member]}
    report = check(server, str(listed))
    assert report.missing == ["lineage"]
    assert set(report.not_proved_members) >= LOCATION_MEMBERS | {"createdHeight"}


def test_current_is_the_last_of_the_way(server: Server, listed: Outpoint) -> None:
    honest = server.proofs[str(listed)]
    other = {name: honest[name] for name in honest["current"]}
    server.proofs[str(listed)] = {name: value for name, value in honest.items() if name != "current"}
    assert check(server, str(listed)).missing == ["lineage"]
    for current in (other, honest["current"] | {"outpoint": str(listed)}, honest["current"] | {"height": 2}):
        server.proofs[str(listed)] = honest | {"current": current}
        assert check(server, str(listed)).missing == ["lineage"], current
    server.proofs[str(listed)] = honest | {"current": honest["current"] | {"beef": honest["beef"]}}
    assert "the BEEF served is of" in words(check(server, str(listed)), "lineage")


def test_the_value_that_a_parent_decides_by_is_its_own(kit: ChainKit, look: Look) -> None:
    """A parent needs no block: the transaction that spends it commits to its txid, and another is not a parent."""
    other, first = kit.inscribe(agent("Other")), kit.inscribe(agent("Mine"))
    kit.mine(other, first)
    kit.mine(kit.spend([other, first], [(1, p2pkh("bob")), (1, p2pkh("carol"))]))
    server = Server(look(kit, "bsv"), str(first))
    proof = server.proofs[str(first)]
    assert len(proof["parents"]) == 1
    assert check(server, str(first)).missing == []
    parent = read_tx(bytes.fromhex(proof["parents"][0]))
    richer = tuple(output._replace(satoshis=output.satoshis + 1) for output in parent.outputs)
    proof["parents"] = [serialise(parent.inputs, richer, parent.version, parent.locktime).hex()]
    report = check(server, str(first))
    assert report.missing == ["lineage"]
    assert "depends on the value of" in words(report, "lineage")


def test_many_moves_take_one_range_of_headers(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("Wanderer"))
    kit.mine(first)
    location = first
    for number in range(40):
        location = kit.move(location, f"owner {number % 5}")
        kit.mine(location)
    server = Server(look(kit, "bsv"), str(first))
    report = check(server, str(first))
    assert report.missing == []
    assert "after 41 transactions" in words(report, "lineage", "proved")
    assert server.requests == [0]


def test_the_app_and_the_created_height_follow_from_the_way(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("First"))
    kit.mine(first)
    kit.mine_empty(2)
    named = kit.map_only(first, {"app": "renamed"})
    kit.mine(named)
    local: LocalSource = look(kit, "bsv")
    item = local.listing(str(first))
    assert (item["app"], item["createdHeight"]) == ("renamed", len(kit.branch()) - 4)
    server = Server(local, str(first))
    assert check(server, str(first)).missing == []
    for forgery in ({"app": "test"}, {"createdHeight": item["createdHeight"] + 3}):
        server.items[str(first)] = item | forgery
        assert check(server, str(first)).missing == ["listing"]


def test_an_envelope_of_another_satoshi_in_the_same_output_is_no_revision(look: Look) -> None:
    """By ordinal theory two satoshis may end in one output; each is spoken to by its own input alone (law 3a)."""
    kit = ChainKit("ltc")
    first = kit.reveal(agent("Mine"))
    kit.mine(first)
    card = json.dumps(agent("Stranger's")).encode()
    stack = (b"\x51" * 64, tapscript(card, map={"app": "test", "type": "a2b-agent"}), b"\xc0" + b"\x52" * 32)
    both = kit.spend([first, kit.fund()], [(10**6, p2pkh("bob"))], witnesses=[(), stack])
    kit.mine(both)
    server = Server(look(kit, "ltc"), str(first))
    trusted = FakeSource(holds=True)
    assert check(server, str(first), trusted=trusted, expected="ltc:regtest").missing == []
    proof, item = server.proofs[str(first)], server.items[str(first)]
    (registered,) = [{name: proof[name] for name in proof["after"][0]}]
    server.proofs[str(first)] = proof | proof["current"] | {"before": [registered], "after": []}
    del server.proofs[str(first)]["current"]
    server.items[str(first)] = item | item_json.card_fields(cards.read(card, Kind.AGENT)) | {
        "txid": both.hex_id, "cardSha256": sha256(card).hexdigest(), "updatedHeight": proof["current"]["height"],
        "blockHeight": proof["current"]["height"], "cheapest": None,
    }  # fmt: skip
    server.cards[str(first)] = card
    report = check(server, str(first), trusted=trusted, expected="ltc:regtest")
    assert set(report.missing) >= {"registration", "lineage"}
    assert "the last valid card on the way is at" in words(report, "registration")
