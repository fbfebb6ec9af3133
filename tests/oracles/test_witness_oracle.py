"""Law 3a as stories on Litecoin's regtest."""

from __future__ import annotations

from typing import Any

from parsers.bitcoin.tx import Outpoint
from tests.chainkit import COIN, ChainKit, agent, tool
from tests.chainkit_scripts import body_of, map_tape, p2pkh, tapscript
from tests.oracles.witness import WitnessRegistry

MAP = {"app": "test", "type": "a2b-agent"}


def look(kit: ChainKit) -> WitnessRegistry:
    witness_registry = WitnessRegistry()
    for block in kit.branch():
        witness_registry.add_block(block.raw)
    return witness_registry


def stack(card: dict[str, Any], **form: Any) -> tuple[bytes, ...]:
    return (b"\x51" * 64, tapscript(body_of(card), **form), b"\xc0" + b"\x52" * 32)


def kinds(witness_registry: WitnessRegistry, which: Outpoint) -> list[str]:
    return [
        revision["kind"]
        for registration in witness_registry.registrations
        if registration["id"] == str(which)
        for revision in registration["revisions"]
    ]


def test_a_chunked_body_is_joined_and_the_id_is_where_the_satoshi_lands() -> None:
    kit = ChainKit("ltc")
    first = kit.reveal(agent(description="x" * 2000))
    second = kit.reveal(tool(), type="a2b-mcp", map_in="envelope")
    kit.mine(first, second)
    answer = look(kit)
    assert [(registration["id"], registration["type"]) for registration in answer.registrations] == [
        (str(first), "agent"),
        (str(second), "tool"),
    ]
    assert answer.registrations[0]["card"]["description"] == "x" * 2000


def test_a_satoshi_is_followed_with_its_offset_through_larger_outputs() -> None:
    kit = ChainKit("ltc")
    first = kit.reveal(agent())
    merged = kit.spend([kit.fund(), first], [(COIN + 5000, p2pkh("bob")), (5000, p2pkh("carol"))])
    split = kit.spend([merged.outpoint(0)], [(COIN - 1, p2pkh("carol")), (546, p2pkh("dave"))])
    kit.mine(first, merged, split)
    answer = look(kit).registrations[0]
    assert kinds(look(kit), first) == ["inscribed", "moved", "moved"]
    assert (answer["outpoint"], answer["owner"]) == (str(split.outpoint(1)), kit.address("dave"))


def test_it_burns_only_in_an_unspendable_output_or_the_fee() -> None:
    kit = ChainKit("ltc")
    lost, paid = kit.reveal(agent("Lost")), kit.reveal(agent("Paid"))
    returned = kit.spend([lost], [(10_000, b"\x6a\x01x")])
    feed = kit.spend([kit.fund(), paid], [(COIN, p2pkh("bob"))])
    kit.mine(lost, paid, returned, feed)
    answer = look(kit)
    reasons = [registration["revisions"][1]["reason"] for registration in answer.registrations]
    assert reasons == ["into an output that cannot be spent", "to the fee"]
    assert answer.ids("live") == set()


def test_a_reveal_over_the_registered_satoshi_updates_and_one_over_another_is_new() -> None:
    kit = ChainKit("ltc")
    first = kit.reveal(agent("One"))
    second = kit.reveal(agent("Two"), source=first, map_in="envelope")
    later = kit.spend(
        [kit.fund(), second],
        [(COIN, p2pkh("bob")), (9000, p2pkh("bob")), (0, map_tape(MAP))],
        witnesses=[stack(agent("New")), ()],
    )
    kit.mine(first, second, later)
    answer = look(kit)
    assert kinds(answer, first) == ["inscribed", "reinscribed", "map_only"]
    assert answer.ids("live") == {str(first), str(later.outpoint(0))}


def test_of_two_records_that_land_in_one_output_the_second_has_its_number() -> None:
    kit = ChainKit("ltc")
    both = kit.spend(
        [kit.fund(), kit.fund()],
        [(2 * COIN, p2pkh("bob")), (0, map_tape(MAP))],
        witnesses=[stack(agent("One")), stack(agent("Two"))],
    )
    kit.mine(both)
    answer = look(kit)
    assert [(registration["id"][64:], registration["card"]["name"]) for registration in answer.registrations] == [
        ("_0", "One"),
        ("_0#1", "Two"),
    ]
    assert answer.rejected == []


def test_a_pointer_is_followed_and_an_unknown_even_tag_leaves_no_satoshi() -> None:
    kit = ChainKit("ltc")
    tx = kit.spend(
        [kit.fund()],
        [(10, p2pkh("bob")), (10, p2pkh("carol")), (0, map_tape(MAP))],
        witnesses=[stack(agent("One"), pointer=15)],
    )
    unbound = kit.spend(
        [kit.fund()],
        [(10, p2pkh("bob")), (0, map_tape(MAP))],
        witnesses=[stack(agent("Two"), before=[(b"\x04", b"x")])],
    )
    kit.mine(tx, unbound)
    answer = look(kit)
    assert [registration["id"] for registration in answer.registrations] == [str(tx.outpoint(1))]
    assert [item["reason"] for item in answer.rejected] == [
        "bound to no satoshi: the envelope has the unknown even tag 04"
    ]
