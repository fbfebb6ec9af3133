"""Every system works on one database at the same time, as in an overlay with all of them, on each kind of database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from indexer.store import connect
from overlay.systems.delegateos.delegated_access import DelegatedAccess
from overlay.systems.delegateos.store import DelegationRecords
from overlay.systems.mrp.store import MrpProviders
from overlay.systems.payments.store import PaymentStore
from overlay.systems.rating.store import ReceiptQueries
from overlay.systems.relay.store import RelayStore
from overlay.systems.webhooks.store import StoredWebhooks
from parsers.claims.delegateos.signed_objects import principal_of
from tests.chainkit import agent
from tests.overlay.payments.paid_server import PaidServer
from tests.overlay.payments.test_gate import claim_of
from tests.overlay.protocols.mrp.test_store import NOW as MRP_NOW
from tests.overlay.protocols.mrp.test_store import challenge, provider
from tests.overlay.rating.registry import Registry
from tests.overlay.relay.kit import PRICE, World
from tests.overlay.webhooks.webhook_registry import Target, WebhookRegistry, registry, target
from tests.parsers.claims.motebit.signers import ALICE, BOB
from tests.token_kit import ISSUER, NOW, capability, issued

__all__ = ["registry", "target"]  # fixtures

ROUNDS = 3
Work = Callable[[int], Coroutine[Any, Any, None]]


@pytest.fixture
def engine(database_url: str, registry: WebhookRegistry) -> Iterator[Engine]:
    """The engine through which the systems of a serving process write, apart from the indexer."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


def payments(engine: Engine) -> Work:
    server = PaidServer(PaymentStore(engine))

    async def pay(_: int) -> None:
        assert (await server.call(claim_of(server.pays()))).status == 200

    return pay


def webhooks(registry: WebhookRegistry, target: Target) -> Work:
    registry.subscribe()

    async def deliver(number: int) -> None:
        registry.mine(registry.kit.inscribe(agent(f"Echo {number}")))
        await registry.look()
        await registry.deliver()
        assert len(target.messages) == number + 1

    return deliver


def relay(engine: Engine) -> Work:
    world = World(engine)
    world.register(ALICE, BOB)
    world.fund(ALICE, 10 * PRICE)

    def work() -> None:
        task = world.task(ALICE, BOB)
        world.settle(ALICE, BOB, task, BOB.receipt(relay_task_id=task))
        world.check()

    async def settle(_: int) -> None:
        await asyncio.to_thread(work)

    return settle


def delegations(engine: Engine) -> Work:
    access = DelegatedAccess([principal_of(ISSUER)], DelegationRecords(engine, lambda _: NOW // 10**9), lambda: NOW)
    token = issued(capability(), budget=ROUNDS)

    async def charge(_: int) -> None:
        await asyncio.to_thread(lambda: access.charge(access.verify(token)))

    return charge


def mrp(engine: Engine) -> Work:
    providers = MrpProviders(engine)

    def submit(number: int) -> None:
        new, token = provider(f"{number}.example"), f"token {number}"
        proof = challenge(token, url=new.manifest_url)
        providers.open_challenge(proof, MRP_NOW)
        assert providers.challenge(token, MRP_NOW) == proof
        providers.add(new, new.host, token)

    async def listed(number: int) -> None:
        await asyncio.to_thread(submit, number)

    return listed


async def rating(database_url: str, registry: WebhookRegistry) -> tuple[str, Work]:
    rated = Registry(database_url, (registry.kit, registry.chain, registry.indexing))
    listing = await rated.inscribe(ALICE)
    rated.bind(ALICE, listing)

    def hand_in() -> None:
        assert rated.intake.submit("receipt", rated.work(ALICE, BOB)).new == 1
        rated.rate()

    async def rate(_: int) -> None:
        await asyncio.to_thread(hand_in)

    return listing, rate


async def test_every_system_writes_at_the_same_time_and_nothing_is_lost(
    database_url: str, engine: Engine, registry: WebhookRegistry, target: Target
) -> None:
    listing, rate = await rating(database_url, registry)
    systems = (
        payments(engine), webhooks(registry, target), relay(engine), delegations(engine), mrp(engine), rate,
    )  # fmt: skip

    async def rounds(work: Work) -> None:
        for number in range(ROUNDS):
            await work(number)

    await asyncio.gather(*map(rounds, systems))
    later = connect(database_url)  # as after a restart
    assert PaymentStore(later).counted() == ROUNDS * 50_000
    assert [one.sequence for one in StoredWebhooks(later).active()] == [ROUNDS]
    books = RelayStore(later)
    assert (books.ledger.faults(), books.tasks.locked_by(ALICE.id)) == ([], 0)
    assert books.tasks.trust([ALICE.id, BOB.id])[ALICE.id, BOB.id].successes == ROUNDS
    with pytest.raises(Exception, match="the budget is spent"):
        await delegations(later)(0)
    assert len(MrpProviders(later).page(MRP_NOW, 9)) == ROUNDS
    assert ReceiptQueries(later).ratings([listing])[listing].completed >= 1
    later.dispose()
