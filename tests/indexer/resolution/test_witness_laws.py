"""Law 3a as stories: inscriptions in tapscripts on Litecoin's and Bitcoin's regtest, followed by ordinal theory."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.bitcoin.tx import Transaction
from tests.chainkit import COIN, ChainKit, agent, tool
from tests.chainkit_scripts import TAP_KEY, batch, body_of, map_tape, p2pkh, tapscript
from tests.indexer.conftest import Look
from tests.indexing import live_outpoints

AGENT, TOOL = {"app": "test", "type": "a2b-agent"}, {"app": "test", "type": "a2b-mcp"}
BROKEN = b'{"name":"Echo",'
BARE = b"\x00\x63\x03ord\x51\x10application/json\x68"
"""An envelope without a body."""


@pytest.fixture(params=["ltc", "btc"])
def kit(request: pytest.FixtureRequest) -> ChainKit:
    return ChainKit(request.param)


def stack(card: dict[str, Any] | bytes, *, annex: bool = False, **form: Any) -> tuple[bytes, ...]:
    """A witness that reveals a card."""
    items = (b"\x51" * 64, tapscript(body_of(card), **form), b"\xc0" + b"\x52" * 32)
    return (*items, b"\x50annex") if annex else items


async def test_the_body_is_all_its_pushes_joined_and_the_id_is_where_the_satoshi_lands(
    kit: ChainKit, look: Look
) -> None:
    long = agent("Long", description="x" * 3000)
    first, second = kit.reveal(long), kit.reveal(tool(), type="a2b-mcp", map_in="envelope", satoshis=546)
    kit.mine(first, second)
    indexing = await look(kit)
    assert indexing.live() == {str(first), str(second)}
    assert indexing.registration(first)["card"] == long
    assert indexing.registration(first)["owner"] == kit.address("alice")
    assert indexing.registration(second)["type"] == "tool"


async def test_the_id_need_not_be_the_first_output(kit: ChainKit, look: Look) -> None:
    first = kit.spend(
        [kit.fund(), kit.fund()],
        [(COIN - 1, p2pkh("bob")), (0, map_tape(AGENT)), (5, p2pkh("carol")), (COIN - 50, p2pkh("dave"))],
        witnesses=[(), stack(agent())],
    )
    kit.mine(first)
    indexing = await look(kit)
    assert indexing.live() == {str(first.outpoint(2))}
    assert indexing.registration(first.outpoint(2))["owner"] == kit.address("carol")


async def test_the_satoshi_keeps_its_offset_through_outputs_of_any_value(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent())
    merged = kit.spend([kit.fund(), first], [(COIN + 5000, p2pkh("bob")), (5000, p2pkh("carol"))])
    split = kit.spend([merged.outpoint(0)], [(COIN - 1, p2pkh("carol")), (546, p2pkh("dave"))])
    for item in (first, merged, split):
        kit.mine(item)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "moved", "moved"]
    assert indexing.registration(first)["outpoint"] == str(split.outpoint(1))
    (state,) = indexing.store.registrations.at_outpoints("demo", [split.outpoint(1)])[split.outpoint(1)]
    assert (state.offset, state.satoshis) == (1, 546)


async def test_two_registrations_may_share_an_output_and_part_again(kit: ChainKit, look: Look) -> None:
    first, second = kit.reveal(agent("One")), kit.reveal(agent("Two"))
    shared = kit.spend([first, second], [(20_000, p2pkh("bob"))])
    parted = kit.spend([shared.outpoint(0)], [(10_000, p2pkh("carol")), (10_000, p2pkh("dave"))])
    kit.mine(first, second)
    kit.mine(shared)
    kit.mine(parted)
    indexing = await look(kit)
    assert indexing.registration(first)["outpoint"] == str(parted.outpoint(0))
    assert indexing.registration(second)["outpoint"] == str(parted.outpoint(1))
    assert set(live_outpoints(indexing.store)) == {parted.outpoint(0), parted.outpoint(1)}


async def test_it_burns_only_where_it_can_never_be_spent_or_in_the_fee(kit: ChainKit, look: Look) -> None:
    lost, fed, paid = (kit.reveal(agent(name)) for name in ("Lost", "Fed", "Paid"))
    returned = kit.spend([lost], [(10_000, b"\x00\x6a\x01x")])
    feed = kit.spend([fed], [(10_000, b"\x6a\x01x")])
    pay = kit.spend([kit.fund(), paid], [(COIN, p2pkh("bob"))])
    kit.mine(lost, fed, paid, returned, feed, pay)
    indexing = await look(kit)
    assert indexing.live() == set()
    reasons = [indexing.registration(item)["revisions"][1]["reason"] for item in (lost, fed, paid)]
    assert reasons == ["into an output that cannot be spent"] * 2 + ["to the fee"]


async def test_a_reveal_over_the_registered_satoshi_is_an_update_without_map_too(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    second = kit.reveal(agent("Two"), type=None, source=first)
    third = kit.reveal(BROKEN, source=second)
    fourth = kit.reveal(tool(), type="a2b-mcp", source=third)
    fifth = kit.reveal(b"hello", source=fourth, content_type="text/plain")
    kit.mine(first, second, third, fourth, fifth)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "reinscribed", "invalid", "foreign_content", "foreign_content"]
    assert indexing.registration(first)["card"]["name"] == "Two"


async def test_a_reveal_over_another_satoshi_of_the_output_is_a_first_record(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    merged = kit.spend([kit.fund(), first], [(COIN + 10_000, p2pkh("bob"))])
    second = kit.spend(
        [merged.outpoint(0)],
        [(COIN - 9, p2pkh("bob")), (546, p2pkh("carol")), (0, map_tape(AGENT))],
        witnesses=[stack(agent("Two"))],
    )
    kit.mine(first, merged, second)
    indexing = await look(kit)
    assert indexing.live() == {str(first), str(second.outpoint(0))}
    assert indexing.kinds(first) == ["inscribed", "moved", "map_only"]
    assert indexing.registration(first)["outpoint"] == str(second.outpoint(1))


async def test_a_move_with_a_tape_merges_its_map(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent())
    moved = kit.spend([first], [(9_000, p2pkh("bob")), (0, map_tape({"app": "other", "mood": "good"}))])
    kit.mine(first, moved)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "map_only"]
    assert indexing.registration(first)["map"] == {"app": "other", "type": "a2b-agent", "mood": "good"}


async def test_the_map_in_the_envelope_counts_and_not_the_tape(kit: ChainKit, look: Look) -> None:
    first = kit.spend(
        [kit.fund()],
        [(10_000, p2pkh("bob")), (0, map_tape(TOOL))],
        witnesses=[stack(agent(), map=AGENT)],
    )
    kit.mine(first)
    assert (await look(kit)).registration(first.outpoint(0))["type"] == "agent"


async def test_only_the_first_op_return_output_counts(kit: ChainKit, look: Look) -> None:
    first = kit.spend(
        [kit.fund()],
        [(10_000, p2pkh("bob")), (0, b"\x6a\x05hello"), (0, map_tape(AGENT))],
        witnesses=[stack(agent())],
    )
    kit.mine(first)
    indexing = await look(kit)
    assert indexing.live() == set()
    assert indexing.rejections() == [(str(first.outpoint(0)), "no MAP record")]


async def test_of_two_first_records_in_one_output_the_second_has_its_number_in_its_id(
    kit: ChainKit, look: Look
) -> None:
    both = kit.spend(
        [kit.fund(), kit.fund()],
        [(2 * COIN, p2pkh("bob")), (0, map_tape(AGENT))],
        witnesses=[stack(agent("One")), stack(agent("Two"))],
    )
    parted = kit.spend([both.outpoint(0)], [(COIN, p2pkh("carol")), (COIN, p2pkh("dave"))])
    kit.mine(both)
    kit.mine(parted)
    indexing = await look(kit)
    first, second = str(both.outpoint(0)), f"{both.outpoint(0)}#1"
    assert [indexing.registration(id_)["card"]["name"] for id_ in (first, second)] == ["One", "Two"]
    assert indexing.registration(first)["outpoint"] == str(parted.outpoint(0))
    assert indexing.registration(second)["outpoint"] == str(parted.outpoint(1))
    assert indexing.rejections() == []


# -- pointers, batches and what is bound to no satoshi, as ord has them ------------------------------------------------


def reveal(kit: ChainKit, *scripts: bytes, outputs: list[tuple[int, bytes]] | None = None) -> Transaction:
    """A transaction whose one input shows a tapscript with these envelopes."""
    witness = (b"\x51" * 64, batch(*scripts), b"\xc0" + b"\x52" * 32)
    return kit.spend([kit.fund()], outputs or list(ABC), witnesses=[witness])


def card(name: str, pointer: int | None = None, **form: Any) -> bytes:
    return tapscript(body_of(agent(name)), map=AGENT, pointer=pointer, **form)


ABC = ((10_000, p2pkh("alice")), (10_000, p2pkh("bob")), (10_000, p2pkh("carol")))


@pytest.mark.parametrize(
    ("pointer", "vout", "offset"),
    [(0, 0, 0), (10_000, 1, 0), (10_001, 1, 1), (29_999, 2, 9_999), (30_000, 0, 0), (2**64, 0, 0), (None, 0, 0)],
)
async def test_a_pointer_puts_the_card_on_the_satoshi_that_it_names(
    pointer: int | None, vout: int, offset: int, kit: ChainKit, look: Look
) -> None:
    tx = reveal(kit, card("Pointed", pointer))
    kit.mine(tx)
    indexing = await look(kit)
    assert indexing.live() == {str(tx.outpoint(vout))}
    assert indexing.registration(tx.outpoint(vout))["owner"] == kit.address(("alice", "bob", "carol")[vout])
    (state,) = indexing.store.registrations.at_outpoints("demo", [tx.outpoint(vout)])[tx.outpoint(vout)]
    assert state.offset == offset


async def test_every_card_of_a_batch_registers_where_it_lands(kit: ChainKit, look: Look) -> None:
    picture = tapscript(b"GIF89a", "image/gif")
    tx = reveal(kit, picture, card("A"), card("B", 10_000), card("C", 20_000), card("D", 10_005), card("E"))
    kit.mine(tx)
    indexing = await look(kit)
    names = {"_0": "A", "_1": "B", "_2": "C", "_1#4": "D", "_0#5": "E"}
    assert {id_[64:]: indexing.registration(id_)["card"]["name"] for id_ in indexing.live()} == names
    assert indexing.rejections() == []


async def test_a_transaction_makes_64_registrations_at_one_outpoint(kit: ChainKit, look: Look) -> None:
    tx = reveal(kit, *(card(f"{number}") for number in range(66)), card("elsewhere", 10_000))
    kit.mine(tx)
    indexing = await look(kit)
    assert len([id_ for id_ in indexing.live() if id_.startswith(str(tx.outpoint(0)))]) == 64
    assert indexing.registration(str(tx.outpoint(1)))["card"]["name"] == "elsewhere"
    assert [outpoint for outpoint, why in indexing.rejections() if "as it may: 64" in why] == [str(tx.outpoint(0))] * 2


async def test_a_later_card_updates_the_first_of_the_registrations_on_its_satoshi(kit: ChainKit, look: Look) -> None:
    tx = reveal(kit, card("One"), card("Two"), outputs=[(10_000, p2pkh("alice"))])
    first, second = str(tx.outpoint(0)), f"{tx.outpoint(0)}#1"
    later = kit.spend(
        [tx.outpoint(0)], [(9_000, p2pkh("bob"))], witnesses=[(b"", batch(card("Three"), card("Four")), b"\xc0" * 33)]
    )
    moved = kit.spend([later.outpoint(0)], [(8_000, p2pkh("carol"))])
    kit.mine(tx, later, moved)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "reinscribed", "reinscribed", "moved"]
    assert indexing.kinds(second) == ["inscribed", "moved", "moved"]
    assert [indexing.registration(id_)["card"]["name"] for id_ in (first, second)] == ["Four", "Two"]


async def test_a_pointer_to_a_registered_satoshi_updates_its_registration(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    tx = kit.spend(
        [kit.fund(), first],
        [(COIN, p2pkh("bob")), (9_000, p2pkh("carol"))],
        witnesses=[stack(agent("Two"), map=AGENT, pointer=COIN), ()],
    )
    kit.mine(first)
    kit.mine(tx)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "reinscribed"]
    assert indexing.live() == {str(first)}


@pytest.mark.parametrize("tag", [b"\x04", b"\x42", b"\x02\x00"])
async def test_an_unknown_even_tag_leaves_the_card_without_a_satoshi(tag: bytes, kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    unbound = reveal(kit, card("Unbound", before=[(tag, b"x")]), card("Bound"))
    update = kit.reveal(agent("Two"), source=first, before=[(tag, b"x")])
    kit.mine(first, unbound, update)
    indexing = await look(kit)
    why = f"bound to no satoshi: the envelope has the unknown even tag {tag.hex()}"
    assert indexing.rejections() == [(None, why), (None, why)]
    assert indexing.live() == {str(first), str(unbound.outpoint(0))}
    assert indexing.kinds(first) == ["inscribed", "map_only"]


async def test_a_second_pointer_is_an_unknown_even_tag_and_a_repeated_type_is_not(kit: ChainKit, look: Look) -> None:
    twice = reveal(kit, card("Twice", 10_000, before=[(b"\x02", b"\x05")]))
    typed = reveal(kit, card("Typed", before=[(b"\x01", b"application/json"), (b"\x01", b"text/plain")]))
    plain = reveal(kit, card("Plain", before=[(b"\x01", b"text/plain")]))
    kit.mine(twice, typed, plain)
    indexing = await look(kit)
    assert indexing.live() == {str(typed.outpoint(0))}
    assert [reason for _, reason in indexing.rejections()] == [
        "bound to no satoshi: the envelope has the unknown even tag 02", "content type is not JSON"
    ]  # fmt: skip


async def test_an_input_without_satoshis_inscribes_none(kit: ChainKit, look: Look) -> None:
    empty = kit.spend([kit.fund()], [(0, p2pkh("alice")), (0, p2pkh("alice")), (COIN, p2pkh("alice"))])
    tx = kit.spend(
        [empty.outpoint(0), empty.outpoint(2), empty.outpoint(1)],
        [(COIN, p2pkh("bob"))],
        witnesses=[stack(agent("One"), map=AGENT), (), stack(agent("Two"), map=AGENT, pointer=5)],
    )
    kit.mine(empty)
    kit.mine(tx)
    indexing = await look(kit)
    why = "bound to no satoshi: input {} has no satoshis"
    assert indexing.live() == set()
    assert indexing.rejections() == [(None, why.format(0)), (None, why.format(2))]


async def test_a_card_after_a_picture_or_a_broken_envelope_is_read(kit: ChainKit, look: Look) -> None:
    picture, broken = tapscript(b"GIF89a", "image/gif"), TAP_KEY + b"\x00\x63\x03ord\x51\x03a/b\x61"
    first, second = reveal(kit, picture, card("One")), reveal(kit, broken, card("Two"))
    kit.mine(first, second)
    indexing = await look(kit)
    assert indexing.live() == {str(first.outpoint(0)), str(second.outpoint(0))}
    assert indexing.rejections() == []


async def test_a_broken_envelope_beside_a_map_is_a_near_miss_that_says_what_is_wrong(kit: ChainKit, look: Look) -> None:
    script = tapscript(body_of(agent("Cut")))
    outputs = [(10_000, p2pkh("alice")), (0, map_tape(AGENT))]
    cut, bare = reveal(kit, script + b"\x05cut", outputs=outputs), reveal(kit, TAP_KEY + BARE, outputs=outputs)
    opcode = reveal(kit, script[:-1] + b"\x61\x68", outputs=outputs)
    kit.mine(cut, bare, opcode)
    indexing = await look(kit)
    assert indexing.live() == set()
    assert [reason for _, reason in indexing.rejections()] == [
        "a push runs past the end of the tapscript, so nothing in it is read", "the envelope has no body",
        "an opcode is where the envelope needs a push",
    ]  # fmt: skip


async def test_thousands_of_broken_envelopes_of_one_kind_are_one_near_miss_and_take_no_numbers_away(
    kit: ChainKit, look: Look
) -> None:
    outputs = [(10_000, p2pkh("alice")), (0, map_tape(AGENT))]
    tx = reveal(kit, TAP_KEY + BARE * 200, card("One"), card("Two"), outputs=outputs)
    kit.mine(tx)
    indexing = await look(kit)
    assert indexing.live() == {str(tx.outpoint(0)), f"{tx.outpoint(0)}#201"}
    assert indexing.rejections() == [(None, "the envelope has no body")]


async def test_cards_on_one_satoshi_that_burns_leave_near_misses(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    burnt = kit.spend([first], [(9_000, b"\x6a\x01x")], witnesses=[stack(agent("Two"), map=AGENT)])
    kit.mine(first, burnt)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "burned"]
    assert indexing.rejections() == [(str(burnt.outpoint(0)), "into an output that cannot be spent")]


async def test_a_compressed_card_in_a_tapscript_is_a_near_miss(kit: ChainKit, look: Look) -> None:
    tx = reveal(kit, card("Packed", before=[(b"\x09", b"br"), (b"\x09", b"")]))
    kit.mine(tx)
    why = "the envelope declares the content encoding br, which is not read: inscribe the card uncompressed"
    assert (await look(kit)).rejections() == [(str(tx.outpoint(0)), why)]


async def test_first_records_that_land_nowhere_are_near_misses(kit: ChainKit, look: Look) -> None:
    to_the_fee = kit.spend([kit.fund(), kit.fund()], [(COIN, p2pkh("bob"))], witnesses=[(), stack(agent(), map=AGENT)])
    unspendable = kit.spend([kit.fund()], [(1000, map_tape(AGENT))], witnesses=[stack(agent())])
    kit.mine(to_the_fee, unspendable)
    indexing = await look(kit)
    assert sorted(indexing.rejections(), key=str) == sorted(
        [(None, "to the fee"), (str(unspendable.outpoint(0)), "into an output that cannot be spent")], key=str
    )


async def test_near_misses_are_recorded_where_their_satoshi_lands(kit: ChainKit, look: Look) -> None:
    cases = [
        (kit.reveal(BROKEN), "the card is not JSON"),
        (kit.reveal(agent(), type="a2b-other"), "MAP type is not an A2B type"),
        (kit.reveal(agent(), type="agent"), "MAP type agent belongs to app bsv-mcp only"),
        (kit.reveal(agent(), type=None), "no MAP record"),
        (kit.reveal(agent(), content_type="text/plain"), "content type is not JSON"),
    ]
    kit.mine(*(outpoint for outpoint, _ in cases))
    indexing = await look(kit)
    assert sorted(indexing.rejections(), key=str) == sorted([(str(item), reason) for item, reason in cases], key=str)


async def test_an_annex_after_the_tapscript_is_ignored_and_other_inscriptions_are_not_ours(
    kit: ChainKit, look: Look
) -> None:
    annexed = kit.spend(
        [kit.fund()], [(10_000, p2pkh("bob"))], witnesses=[stack(agent("Annexed"), map=AGENT, annex=True)]
    )
    kit.mine(
        annexed,
        kit.reveal({"p": "brc-20"}, type=None),
        kit.reveal(b"GIF89a", type=None, content_type="image/gif"),
        kit.pay("bob"),
    )
    indexing = await look(kit)
    assert indexing.live() == {str(annexed.outpoint(0))}
    assert indexing.rejections() == []


async def test_an_envelope_in_an_output_says_nothing_here(kit: ChainKit, look: Look) -> None:
    kit.mine(kit.inscribe(agent()))
    indexing = await look(kit)
    assert (indexing.live(), indexing.rejections()) == (set(), [])


async def test_pointers_are_read_from_outputs_beside_reveals(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent())
    pointer = kit.point("agents.example", bytes(32))
    kit.mine(first, pointer)
    indexing = await look(kit)
    assert [(item["outpoint"], item["domain"]) for item in indexing.records()["pointers"]] == [
        (str(pointer), "agents.example")
    ]
    assert indexing.live() == {str(first)}


async def test_children_may_stand_before_their_parents_in_a_block(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    moved = kit.spend([first], [(9_000, p2pkh("bob"))]).outpoint(0)
    second = kit.reveal(agent("Two"), source=moved, satoshis=8_000)
    burned = kit.spend([kit.fund(), second], [(COIN, p2pkh("bob"))]).outpoint(0)
    kit.mine(burned, second, moved, first)
    assert (await look(kit)).kinds(first) == ["inscribed", "moved", "reinscribed", "burned"]


async def test_a_fork_takes_back_the_events_of_a_tapscript(kit: ChainKit, look: Look) -> None:
    first = kit.reveal(agent("One"))
    kit.mine(first)
    kit.mine(kit.reveal(agent("Two"), source=first))
    kit.mine(parent=kit["2"])
    kit.mine()
    assert (await look(kit)).kinds(first) == ["inscribed"]
