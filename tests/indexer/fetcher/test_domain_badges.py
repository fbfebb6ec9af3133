"""Law 11: which inscribed agents a domain vouches for, by name and by hash, and how a badge is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete

from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.domain_badges import BadgeQueue
from indexer.fetcher.host_names import DomainVerifier, HostNames, named_in
from indexer.fetcher.reasons import FetchError, Refusal
from indexer.store import visits
from indexer.store.badges import BADGE_CHECK, MAX_ANNOUNCED, DomainBadge
from indexer.store.checks import CHECK_INTERVAL, GRACE, HOUR, CheckState
from indexer.store.observed_tools import named_endpoints, record_tools
from indexer.store.schema import outbox_positions
from tests.chainkit import ChainKit, agent
from tests.due_checks import due
from tests.fakes import MemoryChain
from tests.hostile import Hostile, Net, authority, net, ok, redirect, server, silent
from tests.indexing import Indexing
from tests.names import NameServer, names
from tests.pointer_facts import NOW, digest
from tests.pointer_facts import serves as outcome

FIRST, SECOND = "/.well-known/agent.json", "/.well-known/agent-card.json"
HOST = "agent.example"
ID = f"{'ab' * 32}_0"
OTHER = f"{'cd' * 32}_7"

__all__ = ["authority", "names", "net", "server"]


def card(name: str = "Echo", host: str = HOST, **more: object) -> bytes:
    return json.dumps(agent(name, url=f"https://{host}/a2a", **more)).encode()


# -- what a card names


@pytest.mark.parametrize(
    ("member", "named"),
    [
        (ID, {ID}),
        ([ID, OTHER], {ID, OTHER}),
        (f" {ID.upper().replace('_', '.')} ", {ID}),
        (["solana:mainnet:abc", 7, None, {}], {"solana:mainnet:abc"}),
        ({"id": ID}, set()),
        ("", set()),
        (None, set()),
        ("x" * 4_097, set()),
    ],
)
def test_a_card_names_ids_as_a_string_or_a_list(member: object, named: set[str]) -> None:
    assert named_in(card(**{"x-a2b-id": member})) == named


@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(lambda x: json.dumps({"x-a2b-id": x}).encode()))
def test_any_bytes_name_something_or_nothing(body: bytes) -> None:
    assert all(isinstance(text, str) and text for text in named_in(body))


# -- what a host says


@pytest.fixture
def badger(net: Net, names: NameServer) -> DomainVerifier:
    return DomainVerifier(net.fetcher(), TxtRecords([names.address]))


async def test_a_host_confirms_by_both_of_its_cards_and_its_records(
    server: Hostile, names: NameServer, badger: DomainVerifier
) -> None:
    first, second = card("One", **{"x-a2b-id": ID}), card("Two", **{"x-a2b-id": [OTHER]})
    server.say(FIRST, ok(first))
    server.say(SECOND, ok(second))
    names.texts["_a2b.agent.example"] = ["v=spf1 -all", "id=one", f"id= {OTHER.replace('_', ':')}", "ID=two"]
    fetch_names = await badger.fetch_names(HOST)
    assert fetch_names == HostNames(
        frozenset({digest(first), digest(second)}), frozenset({ID, OTHER}), frozenset({"one", OTHER})
    )
    assert names.requests == ["_a2b.agent.example"]


async def test_a_redirect_to_another_host_says_nothing(server: Hostile, badger: DomainVerifier) -> None:
    server.say(FIRST, redirect(f"https://other.example{FIRST}"))
    fetch_names = await badger.fetch_names(HOST)
    assert fetch_names.served == fetch_names.named == frozenset()
    assert fetch_names.refusal == Refusal("fetch-redirect-host", "other.example")
    assert fetch_names.verdict(HOST).failed == frozenset()


async def test_a_badge_is_never_requested_of_a_private_address(net: Net, badger: DomainVerifier) -> None:
    net.names[HOST] = ["10.0.0.1"]
    fetch_names = await badger.fetch_names(HOST)
    assert fetch_names.refusal is not None
    assert fetch_names.refusal.code == "fetch-address"
    assert net.dialled == []


async def test_the_other_card_is_not_requested_of_a_host_in_trouble(server: Hostile, badger: DomainVerifier) -> None:
    server.say(FIRST, silent)
    fetch_names = await badger.fetch_names(HOST)
    assert fetch_names.refusal is not None
    assert fetch_names.refusal.code == "fetch-first-byte"
    assert server.paths() == [FIRST]
    assert fetch_names.verdict(HOST).failed == {"name", "hash"}


async def test_a_host_without_budget_gets_no_request(badger: DomainVerifier) -> None:
    def admit(host: str, address: object, _port: int) -> None:
        raise FetchError("fetch-budget", "9 s", 9.0)

    with pytest.raises(FetchError, match="next visit is in 9 s"):
        await badger.fetch_names(HOST, admit)


@pytest.mark.parametrize("mode", ["silent", "broken", "refused"])
async def test_name_servers_that_do_not_help_are_named(mode: str, names: NameServer, net: Net) -> None:
    names.mode = mode
    badger = DomainVerifier(net.fetcher(), TxtRecords([names.address], seconds=0.5))
    fetch_names = await badger.fetch_names(HOST)
    assert fetch_names.dns_refusal is not None
    assert fetch_names.dns_refusal.code == "fetch-dns"
    assert fetch_names.verdict(HOST).failed == {"dns"}


async def test_records_that_are_long_or_empty_are_read(names: NameServer) -> None:
    records = TxtRecords([names.address])
    names.texts["_a2b.agent.example"] = []
    assert await records.ids(HOST) == frozenset()
    names.texts["_a2b.agent.example"] = ["id=" + "x" * 700]
    assert await records.ids(HOST) == {"x" * 700}
    assert await records.ids("x" * 63 + ("." + "y" * 62) * 3 + ".example") == frozenset()


# -- who gets a badge


class BadgeRegistry:
    """A chain of agents. A test passes on what their hosts answer: `registry.record(HostNames(…))`."""

    def __init__(self, indexing: Indexing, kit: ChainKit, chain: MemoryChain) -> None:
        self.indexing, self.kit, self.chain, self.now = indexing, kit, chain, NOW

    async def mine(self, *what: object) -> None:
        self.chain.arrive(self.kit.mine(*what))
        await self.indexing.catch_up()
        self.enlist()

    def enlist(self) -> None:
        following = BadgeQueue(self.indexing.store, self.indexing.writer)
        while following.step(self.now):
            pass

    def record(self, host_claims: HostNames, host: str = HOST) -> list[str]:
        """Record an answer of the host; the ids that readers must look up again."""
        before = self.indexing.store.outbox.newest_seq()
        visits.record_host(self.indexing.writer, host_claims.verdict(host), self.now)
        news = self.indexing.store.outbox.after(before, 100)
        assert {change.reason for change in news} <= {"domain-checked"}
        return [change.id for change in news]

    def badge(self, id_: object) -> DomainBadge:
        return self.indexing.store.badges.get([str(id_)])[str(id_)]

    def check(self, id_: object) -> CheckState:
        state = self.indexing.store.checks.get(BADGE_CHECK, str(id_))
        assert state is not None
        return state

    def by(self, *ids: object) -> list[str]:
        return [self.badge(item).by for item in ids]

    def due(self) -> list[str]:
        return [host for _, host in due(self.indexing.store.engine, BADGE_CHECK, self.now)]


@pytest.fixture
def registry(database_url: str) -> Iterator[BadgeRegistry]:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks)
    with Indexing(database_url, chain) as indexing:
        yield BadgeRegistry(indexing, kit, chain)


def named(*ids: object) -> HostNames:
    return HostNames(named=frozenset(map(str, ids)))


def serves(*bodies: bytes) -> HostNames:
    return HostNames(served=frozenset(map(digest, bodies)))


async def test_hosts_of_live_agents_are_due_at_once(registry: BadgeRegistry) -> None:
    echo, local, tool = (
        registry.kit.inscribe(card()),
        registry.kit.inscribe(agent(url="http://127.0.0.1/")),
        registry.kit.inscribe({"mcpServers": {"x": {"command": "y", "url": "https://tool.example"}}}, type="a2b-mcp"),
    )
    await registry.mine(echo, local, tool)
    assert registry.due() == [HOST]
    assert registry.indexing.store.badges.get(map(str, (local, tool))) == {}
    result = registry.badge(echo)
    assert (result.host, result.card, result.by, result.verdict.checked_at, registry.check(echo).next_at) == (
        HOST,
        digest(card()),
        "",
        0,
        NOW,
    )


async def test_endpoints_are_those_of_live_agents_of_servers_and_of_pointers(registry: BadgeRegistry) -> None:
    server, other, url = {"url": "https://tool.example/a"}, {"url": "https://tool.example/b"}, f"https://{HOST}/a2a"
    kit, indexing = registry.kit, registry.indexing
    echo = kit.inscribe(card())
    config = kit.inscribe({"mcpServers": {"a": server, "b": other, "c": {"command": "c"}}}, type="a2b-mcp")
    await registry.mine(echo, config, kit.point("pointed.example", sha256(card("Pointed")).hexdigest()))
    visits.record_fetch(indexing.writer, "pointed.example", outcome(NOW + 10**12, card("Pointed")))
    registry.enlist()

    def observed() -> dict[str, list[str]]:
        tools = indexing.store.tools.of_registrations([str(echo), str(config), "pointed.example"])
        return {id_: sorted(by_endpoint) for id_, by_endpoint in tools.items()}

    with indexing.writer.transaction() as connection:
        for endpoint in (url, server["url"], other["url"]):
            record_tools(connection, endpoint, [{"name": "sum"}], NOW)
    assert observed() == {
        str(echo): [url], str(config): [server["url"], other["url"]], "pointed.example": [url],
    }  # fmt: skip
    await registry.mine(kit.burn(echo), kit.update(config, {"mcpServers": {"b": other}}))
    assert observed() == {str(config): [other["url"]], "pointed.example": [url]}
    with indexing.writer.transaction() as connection:
        connection.execute(delete(named_endpoints))
        connection.execute(delete(outbox_positions))
    registry.enlist()
    assert observed() == {str(config): [other["url"]], "pointed.example": [url]}


async def test_the_host_names_whom_it_means(registry: BadgeRegistry) -> None:
    ours, copy, elsewhere = (registry.kit.inscribe(card(host=host)) for host in (HOST, HOST, "other.example"))
    await registry.mine(ours, copy, elsewhere)
    assert registry.record(named(ours, elsewhere, ID)) == sorted([str(ours), str(copy)])
    assert registry.by(ours, copy, elsewhere) == ["name", "", ""]
    assert registry.badge(ours).verdict.checked_at == NOW
    assert registry.record(HostNames(in_dns=frozenset({str(copy)}))) == sorted([str(ours), str(copy)])
    assert registry.by(ours, copy) == ["", "dns"]
    registry.record(HostNames())
    assert registry.by(ours, copy) == ["", ""]


async def test_by_hash_only_the_oldest_with_these_bytes_has_it_and_the_next_once_that_is_burned(
    registry: BadgeRegistry,
) -> None:
    first, second, other = (registry.kit.inscribe(body) for body in (card(), card(), card("Other")))
    await registry.mine(first)
    await registry.mine(other, second)
    registry.record(serves(card()))
    assert registry.by(first, second, other) == ["hash", "", ""]
    registry.kit.burn(first)
    await registry.mine(registry.kit.burn(first))
    assert registry.indexing.store.badges.get([str(first)]) == {}
    registry.record(serves(card()))
    assert registry.by(second, other) == ["hash", ""]


async def test_few_listings_without_a_badge_are_announced_after_a_check_and_many_are_not(
    registry: BadgeRegistry,
) -> None:
    agents = [registry.kit.inscribe(card(f"Agent {number}")) for number in range(MAX_ANNOUNCED)]
    await registry.mine(*agents)
    assert registry.record(HostNames()) == sorted(map(str, agents))
    assert {registry.badge(item).verdict.checked_at for item in agents} == {NOW}
    registry.now += 1
    assert registry.record(HostNames(refusal=Refusal("fetch-resolve", "no such name"))) == sorted(map(str, agents))
    failed = registry.badge(agents[0])
    assert (failed.by, failed.verdict.reason, failed.tried_at) == ("", "fetch-resolve", NOW + 1)
    await registry.mine(registry.kit.inscribe(card("One more")))
    registry.now += 1
    assert registry.record(HostNames()) == []
    assert registry.record(named(agents[3])) == [str(agents[3])]


async def test_an_old_registration_that_takes_over_a_victims_bytes_gains_nothing(registry: BadgeRegistry) -> None:
    old = registry.kit.inscribe(card("Innocent"))
    await registry.mine(old)
    victim = registry.kit.inscribe(card())
    await registry.mine(victim)
    await registry.mine(registry.kit.update(old, card()))
    registry.record(serves(card()))
    assert registry.by(old, victim) == ["", "hash"]


async def test_naming_beats_hash(registry: BadgeRegistry) -> None:
    oldest, meant = registry.kit.inscribe(card()), registry.kit.inscribe(card())
    await registry.mine(oldest)
    await registry.mine(meant)
    registry.record(HostNames(served=frozenset({digest(card())}), named=frozenset({str(meant)})))
    assert registry.by(oldest, meant) == ["", "name"]
    # one that names only what nobody inscribed gives none either
    registry.record(HostNames(served=frozenset({digest(card())}), in_dns=frozenset({ID})))
    assert registry.by(oldest, meant) == ["", ""]


async def test_a_new_revision_loses_a_badge_by_hash_until_it_is_checked_and_keeps_one_by_name(
    registry: BadgeRegistry,
) -> None:
    hashed, called = registry.kit.inscribe(card()), registry.kit.inscribe(card("Two", "two.example"))
    await registry.mine(hashed, called)
    registry.record(serves(card()))
    registry.record(named(called), "two.example")
    assert registry.due() == []
    newer = card("Newer")
    await registry.mine(registry.kit.update(hashed, newer), registry.kit.update(called, card("Three", "two.example")))
    assert registry.by(hashed, called) == ["", "name"]
    assert registry.due() == [HOST, "two.example"]
    registry.record(serves(newer))
    assert registry.by(hashed) == ["hash"]


async def test_a_listing_that_loses_its_badge_is_announced(registry: BadgeRegistry) -> None:
    """The list follows the outbox, as an index does: whichever comes later, the index says in the end what counts."""
    burned, hashed, stored, bare = (registry.kit.inscribe(card(host=f"{name}.example")) for name in "abcd")
    await registry.mine(burned, hashed, stored, bare)
    registry.record(named(burned), "a.example")
    registry.record(serves(card(host="b.example")), "b.example")
    registry.record(named(stored), "c.example")
    registry.record(HostNames(), "d.example")
    before = registry.indexing.store.outbox.newest_seq()
    updates = [
        registry.kit.update(item, card("Newer", f"{name}.example")) for item, name in ((hashed, "b"), (stored, "c"))
    ]
    await registry.mine(registry.kit.burn(burned), *updates, registry.kit.update(bare, card("Newer", "d.example")))
    news = registry.indexing.store.outbox.after(before, 100)
    assert sorted(change.id for change in news if change.reason == "domain-checked") == sorted(
        map(str, (burned, hashed))
    )
    assert [change.reason for change in news[-2:]] == ["domain-checked"] * 2, "after all that the block changed"


async def test_a_badge_that_was_read_before_a_revision_does_not_hold_for_it(registry: BadgeRegistry) -> None:
    echo = registry.kit.inscribe(card())
    await registry.mine(echo)
    registry.record(serves(card()))
    held = registry.badge(echo)
    assert held.holds(HOST, digest(card()))
    assert not held.holds(HOST, digest(card("Newer")))
    assert not held.holds("other.example", digest(card()))


async def test_a_url_that_moves_to_another_host_leaves_every_badge_behind(registry: BadgeRegistry) -> None:
    echo = registry.kit.inscribe(card())
    await registry.mine(echo)
    registry.record(named(echo))
    await registry.mine(registry.kit.update(echo, card(host="evil.example")))
    assert (registry.badge(echo).host, registry.by(echo)) == ("evil.example", [""])


async def test_a_reorganisation_takes_a_registration_from_the_list(registry: BadgeRegistry) -> None:
    fork = registry.kit.tip
    echo = registry.kit.inscribe(card())
    await registry.mine(echo)
    registry.record(named(echo))
    for _ in range(2):
        fork = registry.kit.mine(parent=fork)
        registry.chain.arrive(fork)
    await registry.indexing.catch_up()
    registry.enlist()
    assert registry.indexing.store.badges.get([str(echo)]) == {}


async def test_an_unreachable_host_loses_its_badges_only_after_a_week(registry: BadgeRegistry) -> None:
    echo, dns = registry.kit.inscribe(card()), registry.kit.inscribe(card("Dns"))
    await registry.mine(echo, dns)
    registry.record(HostNames(named=frozenset({str(echo)}), in_dns=frozenset({str(dns)})))
    deaf = HostNames(refusal=Refusal("fetch-connect", "no"), dns_refusal=Refusal("fetch-dns", "no"))
    registry.now += CHECK_INTERVAL
    assert registry.due() == [HOST]
    registry.record(deaf)
    assert registry.by(echo, dns) == ["name", "dns"]
    assert (registry.badge(echo).verdict.checked_at, registry.check(echo).next_at) == (NOW, registry.now + HOUR)
    assert registry.check(echo).reason == "fetch-connect"
    registry.now = NOW + GRACE
    registry.record(deaf)
    assert registry.by(echo, dns) == ["", ""]


async def test_the_last_check_of_a_host_that_does_not_answer_is_when_its_week_ends(registry: BadgeRegistry) -> None:
    echo = registry.kit.inscribe(card())
    await registry.mine(echo)
    registry.record(HostNames(named=frozenset({str(echo)})))
    deaf = HostNames(refusal=Refusal("fetch-connect", "no"), dns_refusal=Refusal("fetch-dns", "no"))
    while registry.by(echo) == ["name"]:
        later = registry.check(echo).next_at
        assert later is not None
        registry.now = later
        registry.record(deaf)
    assert registry.now == NOW + GRACE


async def test_a_host_without_badge_is_visited_less_and_less_often(registry: BadgeRegistry) -> None:
    echo = registry.kit.inscribe(card())
    await registry.mine(echo)
    waits = []
    for _ in range(12):
        registry.record(HostNames(refusal=Refusal("fetch-missing", "404")))
        later = registry.check(echo).next_at
        assert later is not None
        waits.append((later - registry.now) // HOUR)
        registry.now = later
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 168, 168, 168, 168]
    assert registry.check(echo).reason == "fetch-missing"


async def test_the_list_is_rebuilt_from_the_store_and_continues_after_a_restart(registry: BadgeRegistry) -> None:
    first = registry.kit.inscribe(card())
    registry.chain.arrive(registry.kit.mine(first))
    await registry.indexing.catch_up()
    assert registry.indexing.store.badges.position() is None
    registry.enlist()
    assert registry.indexing.store.badges.position() == registry.indexing.store.outbox.newest_seq()
    registry.record(named(first))
    registry.indexing.restart()
    await registry.mine(registry.kit.inscribe(card("Second")))
    assert registry.by(first) == ["name"]
    assert registry.due() == [HOST]


async def test_many_registrations_of_a_victims_host_are_one_visit(registry: BadgeRegistry) -> None:
    ring = [registry.kit.inscribe(card(f"Copy {number}")) for number in range(60)]
    await registry.mine(*ring)
    assert registry.due() == [HOST]
    assert registry.record(named(ring[7])) == [str(ring[7])]
    assert registry.due() == []


async def test_the_list_is_made_in_batches_and_misses_no_event_in_between(
    registry: BadgeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.fetcher.domain_badges.BATCH", 2)
    ring = [registry.kit.inscribe(card(f"{number}", f"h{number}.example")) for number in range(5)]
    registry.chain.arrive(registry.kit.mine(*ring))
    await registry.indexing.catch_up()
    following = BadgeQueue(registry.indexing.store, registry.indexing.writer)
    assert following.step(NOW)
    assert len(registry.due()) == 2
    late = registry.kit.inscribe(card("late", "late.example"))
    registry.chain.arrive(registry.kit.mine(late, registry.kit.burn(ring[0])))
    await registry.indexing.catch_up()
    while following.step(NOW):
        pass
    assert registry.due() == [*(f"h{number}.example" for number in range(1, 5)), "late.example"]
