"""Every member of a true answer is changed, removed or added: each change is detected, or the member is named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from indexer.fetcher.host_names import HostNames
from indexer.store import visits
from overlay.answers.schemas import SCHEMAS
from overlay.listings.local_source import LocalSource
from overlay.listings.recent_changes import aged
from overlay.listings.repository import ListingRepository
from overlay.verify import VerificationReport
from overlay.verify.item_members import UNPROVABLE, UNPROVABLE_OF_AGENTS, UNPROVABLE_OF_POINTERS, same
from parsers.bitcoin import bump
from tests.chain_records import due_locators
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.asked_hosts import AskedHosts
from tests.overlay.forging_server import REGTEST, Server, check, paths, remove
from tests.pointer_facts import card, digest, serves

HOST = "echo.example"
POINTED = "a.example"
POINTED_CARD = card("Alpha")
ON_DEMAND = {"byMeaning", "cost", "explain", "highlights", "lacks", "score"}
"""Members that only a search has, which asks for them."""

PRICE = {"id": "p", "amount": "1", "currency": "USD", "skillIds": ["s"], "address": "alice", "interval": "month"}
OTHERS = {"ownerCheckedAt"}
"""Members of the proof that are named as the item's are."""


class Answers(dict[str, Server]):
    """True answers by what they are about."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    kit = ChainKit()
    url = f"https://{HOST}/a2a"
    still = kit.inscribe(agent("Still", url=url))
    moved = kit.inscribe(agent("Moved", url=url))
    burned = kit.inscribe(agent("Burned"))
    tx = kit.inscribe(
        {"mcpServers": {"one": {"url": url, "type": "sse", "headers": {"K": ""}}, "two": {"command": "bunx"}}},
        type="a2b-mcp",
    )
    priced = kit.inscribe(agent("Priced", **{"x-payment-config": [PRICE]}))
    kit.mine(still, moved, burned, tx, priced, kit.point(POINTED, digest(POINTED_CARD)))
    updated = kit.update(moved, agent("Moved again", url=url))
    dearer = kit.update(priced, agent("Priced", **{"x-payment-config": [PRICE | {"amount": "2"}]}))
    kit.mine(updated, dearer, kit.burn(burned))
    kit.mine(kit.move(updated))
    chain = MemoryChain(*kit.blocks, name="demo")
    with Indexing(f"sqlite:///{tmp_path_factory.mktemp('members')}/a2b.db", chain) as indexing:
        asyncio.run(indexing.catch_up())
        (job,) = due_locators(indexing.store, 10**15, 1)
        visits.record_fetch(indexing.writer, POINTED, serves(job.next_at + 1, POINTED_CARD))
        local = LocalSource(ListingRepository(indexing.store))
        ids = {
            "still": str(still), "moved": str(moved), "burned": str(burned), "several": str(tx),
            "one of several": f"{tx}#one", "pointed": POINTED, "changed": str(priced),
        }  # fmt: skip
        servers = {name: Server(local, id_) for name, id_ in ids.items()}
        served = servers["served"] = deepcopy(servers["changed"])  # as the API answers: the changes are warnings
        served.items = {id_: aged(item, {}, 1) for id_, item in served.items.items()}
        yield Answers(servers)


NAMES = ("still", "moved", "burned", "several", "one of several", "pointed", "changed", "served")


def hosts(*, by_name: str = "") -> AskedHosts:
    return AskedHosts(HostNames(named=frozenset({by_name} - {""})), {POINTED: POINTED_CARD})


@pytest.mark.parametrize("name", NAMES)
def test_a_true_answer_is_verified_and_names_only_what_a_server_alone_says(answers: Answers, name: str) -> None:
    (id_,) = answers[name].items
    report = check(answers[name], id_, hosts=hosts())
    assert report.missing == [], report.steps
    more = {"domain.checkedAt"} if answers[name].items[id_]["domain"] else set()
    more |= UNPROVABLE_OF_POINTERS if name == "pointed" else set()
    more |= UNPROVABLE | (UNPROVABLE_OF_AGENTS if answers[name].items[id_]["type"] == "agent" else set())
    assert set(report.not_proved_members) == more
    offline = check(answers[name], id_)
    assert offline.missing == []
    assert set(offline.not_proved_members) <= {"domain", "integrity", *more}
    assert offline.as_json()["notProvedMembers"] == list(offline.not_proved_members)


# -- the fuzz ----------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=()), max_size=6)  # lone surrogates too, which JSON can hold

values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**10) | st.floats() | texts
    | st.sampled_from(["00" * 80, "00" * 32, "live", "2001-01-01T00:00:00Z", REGTEST, "agent", "tool", POINTED]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def changed(data: st.DataObject, value: Any) -> Any:
    """Another value near this one: somewhere in it a letter, a number, an element or a member is another one."""
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        how = data.draw(st.sampled_from(["change", "remove", "add"]))
        if how == "remove":
            return {name: item for name, item in value.items() if name != key}
        return value | ({"added": data.draw(values)} if how == "add" else {key: changed(data, value[key])})
    if isinstance(value, list) and value:
        drawn = data.draw(st.integers(0, len(value) - 1))
        how = data.draw(st.sampled_from(["change", "remove", "add", "repeat"]))
        if how == "remove":
            return value[:drawn] + value[drawn + 1 :]
        if how == "repeat":
            return [*value, value[drawn]]
        return (
            [*value, data.draw(values)]
            if how == "add"
            else [*value[:drawn], changed(data, value[drawn]), *value[drawn + 1 :]]
        )
    if isinstance(value, str) and value:
        drawn = data.draw(st.integers(0, len(value) - 1))
        return value[:drawn] + data.draw(st.sampled_from(["0", "1", "f", "A", "", "00"])) + value[drawn + 1 :]
    if isinstance(value, bool):
        return not value
    return value + data.draw(st.sampled_from([1, -1, 0.0])) if isinstance(value, int) else data.draw(values)


def meaning(value: Any, name: str = "") -> Any:
    """A value, with merkle paths as what they prove: a flag may say whom they are meant for, or not."""
    if isinstance(value, dict):
        return {key: meaning(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [meaning(item) for item in value]
    try:
        path = bump.read(bytes.fromhex(value)) if name == "bump" else None
    except (TypeError, ValueError):
        return value
    lowest = sorted(leaf.hash.hex() for leaf in path.levels[0] if leaf.hash) if path else []
    return [path.height, path.merkle_root.hex(), lowest] if path else value


def named(report: VerificationReport, part: str, name: str) -> bool:
    """Whether a report names a member of the item or of the proof, or a member of that."""
    if part == "proof" and name in OTHERS:
        return name in report.not_proved_members
    whole = name if part == "item" else f"proof.{name}"
    whole = whole[:100]
    return any(
        not_proved_member == whole or not_proved_member.startswith(f"{whole}.")
        for not_proved_member in report.not_proved_members
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=600)
@given(data=st.data())
def test_every_member_that_is_changed_removed_or_added_is_found_out_or_named(
    answers: Answers, data: st.DataObject
) -> None:
    server = deepcopy(answers[data.draw(st.sampled_from(NAMES))])
    ((id_, item),) = server.items.items()
    part = data.draw(st.sampled_from(["item", "proof"]))
    answer = item if part == "item" else server.proofs[id_]
    how = data.draw(st.sampled_from(["change", "replace", "remove", "add"]))
    name = data.draw(texts.filter(bool) if how == "add" else st.sampled_from(sorted(answer)))
    if how == "remove":
        del answer[name]
    else:
        value = changed(data, answer[name]) if how == "change" else data.draw(values)
        assume(name not in answer or not same(meaning(answer[name], name), meaning(value, name)))
        answer[name] = value
    report = check(server, id_, hosts=data.draw(st.sampled_from([None, hosts()])))
    assert report.missing or named(report, part, name), (part, how, name, report)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["item", "proof"])
def test_every_single_member_can_be_missing_only_if_it_is_found_out_or_named(
    answers: Answers, name: str, part: str
) -> None:
    ((id_, item),) = answers[name].items.items()
    for path in paths(item if part == "item" else answers[name].proofs[id_]):
        server = deepcopy(answers[name])
        remove((server.items if part == "item" else server.proofs)[id_], path)
        for hosts_or_none in (None, hosts()):
            report = check(server, id_, hosts=hosts_or_none)
            assert report.missing or named(report, part, str(path[0])), path


def test_the_changes_of_a_card_are_members_of_its_answers(answers: Answers) -> None:
    (stored,), (served,) = answers["changed"].items.values(), answers["served"].items.values()
    assert stored["recentChanges"]
    assert served["changedHeight"]


def impossible(answers: Answers, name: str) -> set[str]:
    """The members that no listing of this kind has."""
    (item,) = answers[name].items.values()
    (of_agent,), (of_tool,) = answers["still"].items.values(), answers["one of several"].items.values()
    never = set() if name == "pointed" else {"anchorCount", "drift", "fetchedFrom"}
    if item["type"] == "tool":
        never |= UNPROVABLE_OF_AGENTS | (of_agent.keys() - of_tool.keys())
    return never | (of_tool.keys() - item.keys() if name == "several" else set())


@pytest.mark.parametrize("name", NAMES)
def test_every_member_of_the_schema_that_a_server_leaves_out_is_found_out_or_named(answers: Answers, name: str) -> None:
    ((id_, item),) = answers[name].items.items()
    listed = check(answers[name], id_, hosts=hosts()).not_proved_members
    absent = SCHEMAS["Item"]["properties"].keys() - item.keys() - ON_DEMAND - impossible(answers, name) - set(listed)
    for member in absent:  # proved to be absent
        server = deepcopy(answers[name])
        server.items[id_][member] = "added"
        assert check(server, id_, hosts=hosts()).missing, member


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_a_card_with_another_byte_is_found_out(answers: Answers, data: st.DataObject) -> None:
    server = deepcopy(answers[data.draw(st.sampled_from(NAMES))])
    ((id_, body),) = server.cards.items()
    drawn = data.draw(st.integers(0, len(body) - 1))
    server.cards[id_] = body[:drawn] + bytes((body[drawn] ^ data.draw(st.integers(1, 255)),)) + body[drawn + 1 :]
    assert "card" in check(server, id_).missing


@pytest.mark.parametrize("key", ["\ud800", "%ff", "\0", "x" * 10_000])
def test_a_strange_id_is_no_exception(answers: Answers, key: str) -> None:
    server = deepcopy(answers["one of several"])
    ((id_, item),) = server.items.items()
    item["id"] = f"{id_.partition('#')[0]}#{key}"
    assert check(server, id_).missing == ["answer"]


def test_names_that_a_server_invents_are_few_and_short(answers: Answers) -> None:
    server = deepcopy(answers["still"])
    ((id_, item),) = server.items.items()
    item |= {"x" * 1_000 + str(number): number for number in range(1_000)} | {f"y{number}": 0 for number in range(500)}
    listed = check(server, id_).not_proved_members
    assert len(listed) == 201
    assert listed[-1].startswith("and 3")
    assert max(map(len, listed)) == 100


def test_the_hash_of_a_card_is_that_of_the_bytes(answers: Answers) -> None:
    server = answers["pointed"]
    assert server.items[POINTED]["cardSha256"] == sha256(POINTED_CARD).hexdigest()
    other = deepcopy(server)
    other.cards[POINTED] = card("Beta")
    other.items[POINTED]["cardSha256"] = digest(card("Beta")).hex()
    report = check(other, POINTED)
    assert "card" in report.missing
    assert any("the pointer names the SHA-256" in step.detail for step in report.steps)
