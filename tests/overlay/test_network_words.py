"""A test network is named, with what its work is worth; a main network is not."""

from __future__ import annotations

import pytest

from overlay.text.network_words import network_kind, network_note


@pytest.mark.parametrize(
    ("caip2", "kind"),
    [
        ("bsv:mainnet", "mainnet"),
        ("bsv:testnet", "testnet"),
        ("ltc:regtest", "regtest"),
        ("bip122:000000000933ea01ad0ee984209779ba", "testnet"),
        ("eip155:1", "mainnet"),
        ("eip155:84532", "testnet"),
        ("eip155:31337", "regtest"),
        ("eip155:x", "mainnet"),
        ("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "mainnet"),
        ("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "testnet"),
        ("solana:private", "regtest"),
        ("cosmos:hub", "mainnet"),
    ],
)
def test_a_network_has_a_kind(caip2: str, kind: str) -> None:
    assert network_kind(caip2) == kind
    assert bool(network_note(caip2)) is (kind != "mainnet")


def test_several_test_networks_are_named() -> None:
    note = network_note("bsv:testnet", "bsv:mainnet", "bsv:regtest", "bsv:testnet")
    assert note.startswith("bsv:regtest, bsv:testnet are test networks: their work proves nothing")
