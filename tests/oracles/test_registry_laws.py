"""Laws 1 to 8 where the sample chain does not decide them, as stories that the oracle must tell right."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent, tool
from tests.chainkit_scripts import inscription, map_tape, p2pkh
from tests.oracles.registry import Registry, read_chain

BROKEN = b'{"name":"Echo",'


def look(kit: ChainKit) -> Registry:
    return read_chain(block.raw for block in kit.branch())


def kinds(registry: Registry, which: Outpoint) -> list[str]:
    return [revision["kind"] for revision in the(registry, which)["revisions"]]


def the(registry: Registry, which: Outpoint) -> dict[str, Any]:
    return next(registration for registration in registry.registrations if registration["id"] == str(which))


def test_an_update_without_map_is_an_update_because_map_is_inherited() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    second = kit.update(first, agent("Two"), map=None)
    kit.mine(first, second)
    answer = look(kit)
    assert kinds(answer, first) == ["inscribed", "reinscribed"]
    assert the(answer, first)["card"]["name"] == "Two"
    assert the(answer, first)["map"] == {"app": "test", "type": "a2b-agent"}


@pytest.mark.parametrize("type_", ["a2b", "a2b-agent", "agent"])
def test_all_agent_types_update_an_agent_and_the_app_may_change(type_: str) -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"), type="a2b")
    second = kit.update(first, agent("Two"), map={"app": "other", "type": type_})
    kit.mine(first, second)
    assert kinds(look(kit), first) == ["inscribed", "reinscribed"]
    assert the(look(kit), first)["map"] == {"app": "other", "type": type_}


def test_a_map_only_change_of_kind_is_foreign_and_changes_owner_only() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    second = kit.map_only(first, {"app": "x", "type": "a2b-mcp"}, owner="carol")
    kit.mine(first, second)
    answer = the(look(kit), first)
    assert kinds(look(kit), first) == ["inscribed", "foreign_content"]
    assert answer["revisions"][1]["reason"] == "an agent does not become a tool"
    assert (answer["owner"], answer["map"]["app"]) == (kit.address("carol"), "test")


def test_a_broken_first_card_is_rejected_and_a_later_good_one_is_a_first_record() -> None:
    kit = ChainKit()
    broken = kit.inscribe(BROKEN)
    good = kit.update(broken, agent())
    kit.mine(broken)
    kit.mine(good)
    answer = look(kit)
    assert [(item["outpoint"], item["reason"]) for item in answer.rejected] == [(str(broken), "the card is not JSON")]
    assert [registration["id"] for registration in answer.registrations] == [str(good)]


def test_a_repaired_first_record_needs_its_own_map() -> None:
    kit = ChainKit()
    broken = kit.inscribe(BROKEN)
    kit.mine(broken, kit.update(broken, agent(), map=None))
    answer = look(kit)
    assert answer.registrations == []
    assert [item["reason"] for item in answer.rejected] == ["the card is not JSON", "no MAP record"]


def test_a_second_pointer_for_a_domain_is_recorded_too() -> None:
    kit = ChainKit()
    kit.mine(kit.point("agents.example"), kit.point("agents.example", bytes(32)))
    assert [pointer["form"] for pointer in look(kit).pointers] == ["none", "raw32"]


def test_register_move_update_and_burn_in_one_block_in_any_order() -> None:
    kit = ChainKit()
    first = kit.inscribe(tool("one"), type="a2b-mcp")
    moved = kit.move(first)
    updated = kit.update(moved, tool("two"))
    burned = kit.burn(updated, to="fee")
    kit.mine(burned, updated, moved, first)
    assert kinds(look(kit), first) == ["inscribed", "moved", "reinscribed", "burned"]
    assert the(look(kit), first)["status"] == "burned"
    assert the(look(kit), first)["revisions"][3]["outpoint"] is None


def test_a_burned_satoshi_that_is_alone_again_is_nobodys_until_a_new_card() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    merged = kit.burn(first, to="change")
    alone = kit.spend([merged], [(1, p2pkh("alice")), (500, p2pkh("alice"))]).outpoint(0)
    reborn = kit.inscribe(agent("Two"), source=(alone, 1))
    for item in (first, merged, alone, reborn):
        kit.mine(item)
    answer = look(kit)
    assert answer.ids("burned") == {str(first)}
    assert answer.ids("live") == {str(reborn)}


def test_a_card_with_a_coin_before_it_is_a_new_listing_and_the_old_one_burns() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    second = kit.displace(first, agent("Two"))
    kit.mine(first, second)
    answer = look(kit)
    assert the(answer, first)["revisions"][1]["reason"] == "into the change: another satoshi took output 0"
    assert answer.ids("live") == {str(second)}


def test_zero_satoshi_inputs_and_outputs_hold_nothing() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    empty = kit.spend([kit.fund()], [(0, p2pkh("alice")), (50, p2pkh("alice"))])
    script = inscription(b"{}", {}, "bob")
    moved = kit.spend([empty.outpoint(0), first], [(0, p2pkh("alice")), (1, script)]).outpoint(1)
    kit.mine(first, empty, moved)
    answer = the(look(kit), first)
    assert (answer["outpoint"], kinds(look(kit), first)) == (str(moved), ["inscribed", "invalid"])
    assert answer["revisions"][1]["reason"] == "the card has no name"


def test_map_in_the_envelope_is_merged_with_every_tape_and_later_keys_win() -> None:
    kit = ChainKit()
    tail = map_tape(["app", "late", "odd"])
    first = kit.inscribe(agent(), map_in="envelope", tail=tail, separator=True, order="envelope-first")
    kit.mine(first)
    assert the(look(kit), first)["map"] == {"app": "late", "type": "a2b-agent"}


def test_a_bar_separates_tapes_only_as_its_own_push() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent(), app="this|that")
    kit.mine(first)
    assert the(look(kit), first)["map"]["app"] == "this|that"


def test_a_fork_tells_another_story_from_the_same_transactions() -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    news = kit.update(first, agent("Two"))
    rival = kit.update(first, agent("Three"))
    kit.mine(first)
    kit.mine(news)
    kit.mine(rival, parent=kit["2"])
    assert the(look(kit), first)["card"]["name"] == "Two"
    kit.mine()
    assert [block.label for block in kit.branch()] == ["0", "1", "2", "3a", "4a"]
    assert the(look(kit), first)["card"]["name"] == "Three"


def test_the_state_hash_is_over_the_lines_of_law_18() -> None:
    kit = ChainKit()
    first, second = kit.inscribe(agent("One")), kit.inscribe(agent("Two"))
    kit.mine(first, second, kit.burn(second, to="fee"))
    lines = look(kit).state_lines().splitlines(keepends=True)
    card = the(look(kit), first)["cardSha256"]
    assert f"{first}\tlive\t{first}\t{kit.address('alice')}\t{card}\t2\n" in lines
    assert any(line.startswith(f"{second}\tburned\t-\t-\t") for line in lines)
    assert lines == sorted(lines)
