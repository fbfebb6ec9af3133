"""`client.rate`: one call from the receipt of paid work to a rating, with the proof of the payment from the client's
own node, or from the node of the overlay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession

from indexer.chains.node.payment_node import PaymentNode
from overlay.api.services import AppServices
from overlay.api.shared_services import PAYMENTS, Payments
from overlay.client import AsyncOverlayClient, NotThereError, RefusedError
from overlay.client.ratings import NotMinedError, countersigned
from overlay.listings.repository import ListingRepository
from overlay.systems.rating.receipt_api import INTAKE
from parsers.bitcoin import beef
from parsers.claims.canonical_json import DocumentError
from tests.nodes import Node
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.overlay.rating.registry import Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB


class World(NamedTuple):
    registry: Registry
    node: Node
    session: ClientSession
    client: AsyncOverlayClient
    listing: str


@pytest.fixture
async def world(tmp_path: Path, serve: Serve, services: AppServices) -> AsyncIterator[World]:
    """An overlay with a node, an agent whose key is bound, and a client."""
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        async with Node(registry.chain) as node:
            payment_node = PaymentNode("bsv", node.url)
            brought = {INTAKE: registry.intake, PAYMENTS: Payments(nodes={"BSV": payment_node})}
            session = await serve(changed(services, store=ListingRepository(registry.store), brought=brought))
            listing = await registry.inscribe(ALICE)
            registry.bind(ALICE, listing)
            async with AsyncOverlayClient(str(session._base_url)) as client:
                yield World(registry, node, session, client, listing)
            await payment_node.close()


async def paid(world: World, **more: Any) -> tuple[str, dict[str, Any]]:
    """The txid of a payment to the agent, and the receipt that it gives for it."""
    task, _ = await world.registry.paid(Payer(1), **more)
    return task.removeprefix("bsv:tx:"), world.registry.receipt(ALICE, "a task", relay_task_id=task)


@pytest.mark.parametrize("has_node", [False, True])
async def test_paid_work_is_rated_in_one_call(world: World, has_node: bool) -> None:
    txid, receipt = await paid(world)
    node = world.node.url if has_node else None
    accepted = await world.client.rate(world.listing, receipt, BOB.seed, node=node)
    assert (accepted.new, accepted.listings) == (1, (world.listing,))
    rating = world.registry.rating(world.listing)
    assert rating is not None
    assert (rating.rung, rating.customers) == (2, 1)
    assert accepted.records[0]["payment"] == txid


async def test_a_payment_to_a_listing_is_served_with_its_proof(world: World) -> None:
    txid, _ = await paid(world)
    payment = await world.client.payment(world.listing, txid)
    proof = beef.read(bytes.fromhex(payment.beef))
    subject = proof.newest
    assert subject.tx is not None
    assert (payment.txid, subject.tx.hex_id, subject.raw) == (txid, txid, bytes.fromhex(payment.raw_tx))
    assert proof.member(subject.tx.inputs[0].prevout.txid) is not None, "which shows the payer"
    assert subject.path is not None
    assert proof.paths[subject.path].to_bytes().hex() == payment.bump
    assert payment.height == world.registry.kit.tip.height


async def test_no_other_transaction_is_served(world: World) -> None:
    elsewhere, _ = await paid(world, to=Payer(2).script)
    path = f"/v1/listings/{world.listing}/payments"
    for txid in (elsewhere, "ab" * 32):
        async with world.session.get(f"{path}/{txid}") as response:
            assert (response.status, "as a payment to this listing" in (await response.json())["detail"]) == (404, True)
    async with world.session.get(f"{path}/ab") as response:
        assert (await problem(response, 400))["errors"][0]["code"] == "bad-txid"
    async with world.session.get(f"/v1/listings/{'ab' * 32}_0/payments/{elsewhere}") as response:
        assert response.status == 404
    await world.node.stop()
    async with world.session.get(f"{path}/{elsewhere}") as response:
        assert response.status == 503


async def test_a_payment_in_no_block_is_rated_later(world: World) -> None:
    _, receipt = await paid(world)
    unmined = world.registry.receipt(ALICE, "another task", relay_task_id=f"bsv:tx:{'ab' * 32}")
    with pytest.raises(NotMinedError, match="rate it later"):
        await world.client.rate(world.listing, unmined, BOB.seed, node=world.node.url)
    with pytest.raises(NotThereError):
        await world.client.rate(world.listing, unmined, BOB.seed)
    unpaid = world.registry.receipt(ALICE, "a third task")
    assert (await world.client.rate(world.listing, unpaid, BOB.seed)).new == 1
    with pytest.raises(DocumentError) as forged:
        await world.client.rate(world.listing, {**receipt, "result": "more"}, BOB.seed)
    assert forged.value.code == "bad-signature"
    with pytest.raises(DocumentError, match="would countersign it"):
        countersigned(receipt, ALICE.seed)
    stranger = world.registry.receipt(BOB, "a task", relay_task_id=receipt["relay_task_id"])
    with pytest.raises(RefusedError, match="no task is named"):
        await world.client.rate(world.listing, stranger, ALICE.seed)
