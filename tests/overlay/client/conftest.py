"""Running overlays for the client: over the sample chain, and over one with prices that can be paid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parsers.bitcoin.tx import Outpoint
from tests.chainkit import agent
from tests.overlay.client.world import BASIC, BUYER, PaidRegistry, overlay_over, paid_registry
from tests.overlay.protocols.conftest import overlay_url

__all__ = ["overlay_url"]


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaidRegistry]:
    with paid_registry(tmp_path_factory.mktemp("paid")) as registry:
        yield registry


@pytest.fixture(scope="session")
def mirror(registry: PaidRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of another overlay over the same chain."""
    with overlay_over(registry.kit, tmp_path_factory.mktemp("mirror")) as url:
        yield url


@pytest.fixture(scope="session")
def after_sale(registry: PaidRegistry, mirror: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a third overlay, which has a later block: the listing is sold, and its buyer's prices name the buyer's
    address. Another priced listing is burned. The other two overlays follow only the blocks before."""
    kit, price = registry.kit, BASIC | {"address": BUYER.address}
    sold = kit.move(Outpoint.parse(registry.id), "buyer")
    gone = kit.inscribe(agent("Gone", **{"x-payment-config": [BASIC]}))
    kit.mine(sold, kit.update(sold, agent("Watchtower Guard", **{"x-payment-config": [price]})), gone)
    kit.mine(kit.burn(gone))
    with overlay_over(kit, tmp_path_factory.mktemp("after")) as url:
        yield url
