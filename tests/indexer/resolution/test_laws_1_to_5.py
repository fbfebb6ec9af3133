"""Laws 1 to 5 on BSV as stories, above all what the sample chain does not decide. An oracle reads every story too."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.bitcoin.tx import Outpoint
from tests.chainkit import COIN, ChainKit, agent, tool
from tests.chainkit_scripts import body_of, inscription, map_tape, p2pkh, push
from tests.indexer.conftest import Look
from tests.indexing import Indexing, live_outpoints

AGENT, TOOL = {"app": "test", "type": "a2b-agent"}, {"app": "test", "type": "a2b-mcp"}
BROKEN = b'{"name":"Echo",'


def name(indexing: Indexing, id_: Outpoint) -> str:
    """The name on the card that counts."""
    card = indexing.registration(id_)["card"]
    return str(card["name"] if "name" in card else next(iter(card["mcpServers"])))


# -- law 1: what a registration is -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"app": "any", "type": "a2b-agent"}, "agent"),
        ({"app": "any", "type": "a2b"}, "agent"),
        ({"type": "a2b"}, "agent"),
        ({"app": "bsv-mcp", "type": "agent"}, "agent"),
        ({"app": "any", "type": "a2b-mcp"}, "tool"),
    ],
)
async def test_map_says_what_it_is(kit: ChainKit, look: Look, fields: dict[str, str], kind: str) -> None:
    first = kit.inscribe(agent() if kind == "agent" else tool(), type=None, map=fields)
    kit.mine(first)
    indexing = await look(kit)
    assert indexing.registration(first)["type"] == kind
    assert indexing.registration(first)["map"] == fields


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"satoshis": 2}, "the output holds two satoshis"),
        ({"satoshis": 0}, "the output holds no satoshis"),
        ({"satoshis": 546}, "the output holds 546 satoshis"),
        ({"type": "a2b-other"}, "MAP type is not an A2B type"),
        ({"type": "agent"}, "MAP type agent belongs to app bsv-mcp only"),
        ({"type": None}, "no MAP record"),
        ({"command": "ADD"}, "the MAP command is not SET"),
        ({"content_type": "text/plain"}, "content type is not JSON"),
        ({"content_type": "application/jsonx"}, "content type is not JSON"),
        ({"close": False}, "the envelope is not closed"),
        ({"type": None, "cut": 3}, "the body push runs past the script"),
    ],
)
async def test_what_is_not_accepted_is_recorded_with_the_reason(
    kit: ChainKit, look: Look, form: dict[str, Any], reason: str
) -> None:
    near = kit.inscribe(agent(), **form)
    kit.mine(near)
    indexing = await look(kit)
    assert indexing.live() == set()
    assert indexing.rejections() == [(str(near), reason)]


async def test_map_is_merged_from_the_envelope_and_every_tape_and_later_keys_win(kit: ChainKit, look: Look) -> None:
    tail = map_tape(["app", "late", "mood", "good", "odd"])
    first = kit.inscribe(agent(), map_in="envelope", tail=tail, separator=True, order="envelope-first")
    kit.mine(first)
    assert (await look(kit)).registration(first)["map"] == {"app": "late", "type": "a2b-agent", "mood": "good"}


async def test_a_bar_separates_tapes_only_as_its_own_push(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent(), app="this|that", before=push("note | type a2b-mcp"))
    kit.mine(first)
    assert (await look(kit)).registration(first)["map"] == {"app": "this|that", "type": "a2b-agent"}


async def test_two_registrations_in_one_transaction_have_ids_of_their_own(kit: ChainKit, look: Look) -> None:
    scripts = [inscription(body_of(agent("One")), AGENT, "alice"), inscription(body_of(tool()), TOOL, "bob")]
    tx = kit.spend([kit.fund()], [(1, scripts[0]), (7, p2pkh("carol")), (1, scripts[1])])
    kit.mine(tx)
    indexing = await look(kit)
    assert indexing.live() == {str(tx.outpoint(0)), str(tx.outpoint(2))}


async def test_a_registration_of_a_coinbase_counts(kit: ChainKit, look: Look) -> None:
    script = inscription(body_of(agent()), AGENT, "miner")
    kit._mine(kit.tip, "2", [(1, script), (5 * COIN, p2pkh("miner"))], [])
    indexing = await look(kit)
    assert indexing.live() == {str(Outpoint(kit["2"].txids[0], 0))}


# -- law 2: envelopes -------------------------------------------------------------------------------------------------


async def test_the_first_valid_envelope_counts_and_a_cut_tail_takes_nothing_back(kit: ChainKit, look: Look) -> None:
    rival = inscription(body_of(agent("Rival")), {}, "mallory")
    first = kit.inscribe(agent("First"), tail=rival + b"\x4c\xffcut")
    kit.mine(first)
    assert name(await look(kit), first) == "First"


@pytest.mark.parametrize("order", ["lock-first", "envelope-first"])
@pytest.mark.parametrize("tag", [b"\x51", b"\x01\x01"])
@pytest.mark.parametrize("separator", [False, True])
async def test_every_form_of_envelope_registers(
    kit: ChainKit, look: Look, order: str, tag: bytes, separator: bool
) -> None:
    first = kit.inscribe(agent(), order=order, tag=tag, separator=separator, width=4)
    kit.mine(first)
    indexing = await look(kit)
    assert indexing.live() == {str(first)}
    assert indexing.registration(first)["owner"] == kit.address("alice")


# -- law 3: the satoshi -----------------------------------------------------------------------------------------------


async def test_the_satoshi_is_followed_by_its_position_and_not_by_its_input(kit: ChainKit, look: Look) -> None:
    one, two, three = (kit.inscribe(agent(word)) for word in ("One", "Two", "Three"))
    kit.mine(one, two, three)
    tx = kit.spend([three, one, two, kit.fund()], [(1, p2pkh("a")), (1, p2pkh("b")), (1, p2pkh("c")), (9, p2pkh("d"))])
    kit.mine(tx)
    indexing = await look(kit)
    where = [indexing.registration(item)["outpoint"] for item in (one, two, three)]
    assert where == [str(tx.outpoint(1)), str(tx.outpoint(2)), str(tx.outpoint(0))]


async def test_a_coin_before_the_satoshi_shifts_it(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent())
    fund = kit.fund()
    moved = kit.spend([fund, first], [(COIN - 1, p2pkh("a")), (1, p2pkh("b")), (1, p2pkh("c"))])
    kit.mine(first, moved)
    indexing = await look(kit)
    assert indexing.registration(first)["outpoint"] == str(moved.outpoint(2))


async def test_inputs_and_outputs_of_no_satoshis_hold_nothing(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    empty = kit.spend([kit.fund()], [(0, p2pkh("alice")), (50, p2pkh("alice"))])
    moved = kit.spend([empty.outpoint(0), first], [(0, p2pkh("alice")), (1, p2pkh("bob"))]).outpoint(1)
    kit.mine(first, empty, moved)
    assert (await look(kit)).registration(first)["outpoint"] == str(moved)


@pytest.mark.parametrize(
    ("to", "reason", "has_outpoint"),
    [("change", "into an output of more than one satoshi", True), ("fee", "to the fee", False)],
)
async def test_a_burned_satoshi_says_how(kit: ChainKit, look: Look, to: str, reason: str, has_outpoint: bool) -> None:
    first = kit.inscribe(agent())
    kit.mine(first)
    kit.mine(kit.burn(first, to=to))
    indexing = await look(kit)
    answer = indexing.registration(first)
    assert (answer["status"], answer["outpoint"], answer["owner"]) == ("burned", None, None)
    assert answer["revisions"][1]["reason"] == reason
    assert (answer["revisions"][1]["outpoint"] is not None) == has_outpoint
    assert live_outpoints(indexing.store) == []


async def test_what_looks_like_an_update_behind_a_coin_is_a_newcomer_and_burns_the_old_one(
    kit: ChainKit, look: Look
) -> None:
    first = kit.inscribe(agent("One"))
    second = kit.displace(first, agent("Two"))
    kit.mine(first, second)
    indexing = await look(kit)
    assert indexing.registration(first)["revisions"][1]["reason"] == "into the change: another satoshi took output 0"
    assert indexing.live() == {str(second)}


async def test_one_newcomer_displaces_all_that_end_behind_it(kit: ChainKit, look: Look) -> None:
    one, two, three = (kit.inscribe(agent(word)) for word in ("One", "Two", "Three"))
    script = inscription(body_of(agent("New")), AGENT, "alice")
    tx = kit.spend(
        [one, kit.fund(), two, three],
        [(1, p2pkh("a")), (5, p2pkh("b")), (1, script), (COIN - 5, p2pkh("c")), (1, p2pkh("d"))],
    )
    kit.mine(one, two, three, tx)
    indexing = await look(kit)
    assert indexing.registration(two)["revisions"][1]["reason"] == "into the change: another satoshi took output 2"
    assert indexing.live() == {str(one), str(tx.outpoint(2)), str(three)}
    merged = kit.spend([tx.outpoint(0), tx.outpoint(4), kit.fund()], [(0, script), (7, p2pkh("x")), (1, script)])
    kit.mine(merged)
    indexing = await look(kit)
    reasons = [indexing.registration(item)["revisions"][-1]["reason"] for item in (one, three)]
    assert reasons == ["into an output of more than one satoshi"] * 2


async def test_an_update_of_another_displaces_nobody(kit: ChainKit, look: Look) -> None:
    one, two = kit.inscribe(agent("One")), kit.inscribe(agent("Two"))
    script = inscription(body_of(agent("One again")), AGENT, "alice")
    both = kit.spend([one, two], [(1, script), (0, p2pkh("x"))])
    kit.mine(one, two, both)
    indexing = await look(kit)
    assert indexing.registration(two)["revisions"][1]["reason"] == "to the fee"
    merged = kit.spend([both.outpoint(0), kit.fund()], [(1, script), (5000, p2pkh("x"))])
    kit.mine(merged)
    assert (await look(kit)).kinds(one) == ["inscribed", "reinscribed", "reinscribed"]


# -- law 3b: within a block -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
async def test_register_move_update_and_burn_in_one_block_in_any_order(
    kit: ChainKit, look: Look, backwards: bool
) -> None:
    first = kit.inscribe(tool("one"), type="a2b-mcp")
    moved = kit.move(first)
    updated = kit.update(moved, tool("two"))
    silent = kit.move(updated, owner="carol")
    burned = kit.burn(silent, to="fee")
    txs = [first, moved, updated, silent, burned]
    kit.mine(*(txs[::-1] if backwards else txs))
    assert (await look(kit)).kinds(first) == ["inscribed", "moved", "reinscribed", "moved", "burned"]


async def test_a_long_chain_of_moves_backwards_in_one_block_is_followed(kit: ChainKit, look: Look) -> None:
    first = tx = kit.inscribe(agent())
    moves = [tx := kit.spend([tx], [(1, p2pkh(f"owner {n}"))]).outpoint(0) for n in range(60)]
    kit.mine(*moves[::-1], first)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", *["moved"] * 60]
    assert indexing.registration(first)["outpoint"] == str(moves[-1])


async def test_a_chain_ordered_by_txid_as_on_bitcoin_cash_is_read_parents_first(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("0"))
    news = [first]
    for number in range(1, 6):
        news.append(kit.update(news[-1], agent(str(number))))
    kit.mine(*sorted(news, key=lambda outpoint: outpoint.txid[::-1]))
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", *["reinscribed"] * 5]
    assert name(indexing, first) == "5"


# -- law 4: newest valid wins -----------------------------------------------------------------------------------------


async def test_a_json_body_without_map_is_an_update_because_map_is_inherited(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first, kit.update(first, agent("Two"), map=None))
    indexing = await look(kit)
    assert (indexing.kinds(first), name(indexing, first)) == (["inscribed", "reinscribed"], "Two")


@pytest.mark.parametrize("type_", ["a2b", "a2b-agent", "agent"])
@pytest.mark.parametrize("born", ["a2b", "a2b-agent"])
async def test_all_agent_types_are_one_kind_and_the_app_may_change(
    kit: ChainKit, look: Look, born: str, type_: str
) -> None:
    first = kit.inscribe(agent("One"), type=born)
    kit.mine(first, kit.update(first, agent("Two"), map={"app": "other", "type": type_}))
    indexing = await look(kit)
    assert name(indexing, first) == "Two"
    assert indexing.registration(first)["map"] == {"app": "other", "type": type_}


@pytest.mark.parametrize(
    ("body", "fields", "kind", "reason"),
    [
        (BROKEN, AGENT, "invalid", "the card is not JSON"),
        (b'{"name":"x"}', None, "invalid", "the card has no skills"),
        (b"hello", None, "invalid", "the card is not JSON"),
        (body_of(tool()), TOOL, "foreign_content", "an agent does not become a tool"),
        (body_of(agent("Two")), TOOL, "foreign_content", "an agent does not become a tool"),
        (body_of(agent("Two")), {"type": "post"}, "foreign_content", "MAP type is not an A2B type"),
    ],
)
async def test_content_that_does_not_count_changes_outpoint_and_owner_only(
    kit: ChainKit, look: Look, body: bytes, fields: dict[str, str] | None, kind: str, reason: str
) -> None:
    first = kit.inscribe(agent("One"))
    second = kit.update(first, body, map=fields, owner="carol")
    kit.mine(first)
    kit.mine(second)
    indexing = await look(kit)
    answer = indexing.registration(first)
    assert [(revision["kind"], revision["valid"], revision["reason"]) for revision in answer["revisions"][1:]] == [
        (kind, False, reason)
    ]
    assert (name(indexing, first), answer["map"], answer["updatedHeight"], answer["lastHeight"]) == ("One", AGENT, 2, 3)
    assert (answer["owner"], answer["outpoint"]) == (kit.address("carol"), str(second))
    assert (answer["revisions"][1]["cardSha256"] is not None) == (kind == "invalid")


async def test_a_body_that_is_not_json_is_foreign_content(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first, kit.update(first, b"GIF89a", content_type="image/gif"))
    assert (await look(kit)).kinds(first) == ["inscribed", "foreign_content"]


async def test_a_valid_card_counts_again_after_a_broken_one(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    broken = kit.update(first, BROKEN)
    kit.mine(first, broken, kit.update(broken, agent("Two")))
    indexing = await look(kit)
    assert (indexing.kinds(first), name(indexing, first)) == (["inscribed", "invalid", "reinscribed"], "Two")


async def test_a_move_with_map_merges_it_and_leaves_the_card(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first, kit.map_only(first, {"app": "late", "mood": "good"}))
    answer = (await look(kit)).registration(first)
    assert answer["map"] == {"app": "late", "type": "a2b-agent", "mood": "good"}
    assert (answer["updatedHeight"], answer["revisions"][1]["kind"]) == (2, "map_only")


async def test_map_that_changes_the_kind_is_foreign_with_or_without_a_body(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    kit.mine(first, kit.map_only(first, {"app": "late", "type": "a2b-mcp"}))
    answer = (await look(kit)).registration(first)
    assert [revision["kind"] for revision in answer["revisions"]] == ["inscribed", "foreign_content"]
    assert answer["map"] == AGENT


async def test_map_from_before_the_registration_is_not_inherited(kit: ChainKit, look: Look) -> None:
    early = kit.inscribe(b"a drawing", type=None, map={"app": "studio", "mood": "good"}, content_type="text/plain")
    card = kit.update(early, agent(), map={"type": "a2b"})
    kit.mine(early, card)
    indexing = await look(kit)
    assert indexing.live() == {str(card)}
    assert indexing.registration(card)["map"] == {"type": "a2b"}


async def test_a_broken_first_card_is_rejected_and_a_later_good_one_is_a_first_record(
    kit: ChainKit, look: Look
) -> None:
    broken = kit.inscribe(BROKEN)
    good = kit.update(broken, agent())
    kit.mine(broken)
    kit.mine(good)
    indexing = await look(kit)
    assert indexing.rejections() == [(str(broken), "the card is not JSON")]
    assert indexing.live() == {str(good)}


async def test_two_updates_in_one_transaction_keep_their_order(kit: ChainKit, look: Look) -> None:
    one, two = kit.inscribe(agent("One")), kit.inscribe(agent("Two"))
    scripts = [inscription(body_of(agent(f"{n} again")), AGENT, "alice") for n in ("One", "Two")]
    both = kit.spend([one, two, kit.fund()], [(1, scripts[0]), (1, scripts[1]), (9, p2pkh("x"))])
    kit.mine(one, two)
    kit.mine(both)
    indexing = await look(kit)
    assert (name(indexing, one), name(indexing, two)) == ("One again", "Two again")


# -- law 5: burned is burned ------------------------------------------------------------------------------------------


async def test_a_burned_satoshi_that_is_alone_again_is_nobodys_until_a_new_card(kit: ChainKit, look: Look) -> None:
    first = kit.inscribe(agent("One"))
    merged = kit.burn(first, to="change")
    alone = kit.spend([merged], [(1, p2pkh("alice")), (500, p2pkh("alice"))]).outpoint(0)
    reborn = kit.inscribe(agent("Two"), source=(alone, 1))
    for item in (first, merged, alone, reborn):
        kit.mine(item)
    indexing = await look(kit)
    assert indexing.kinds(first) == ["inscribed", "burned"]
    assert indexing.live() == {str(reborn)}
