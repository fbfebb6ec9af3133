"""The EVM networks known by name, and what an operator may call them; any other is known by its number (EIP-155)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from indexer.chains import EVM_CHAINS, SourceError

ANY = "evm"
"""The `?chain=` of a network of any number."""

_ALIASES = {"eth": "ethereum", "erc8004": ANY}
_DEVELOPMENT = (1337, 31337)
"""The numbers of the networks that Hardhat, Anvil and geth's --dev make on a developer's machine."""

_TESTNETS = {
    "ethereum": {"sepolia": 11155111, "holesky": 17000, "hoodi": 560048},
    "polygon": {"amoy": 80002},
    "bsc": {"testnet": 97},
    "avalanche": {"fuji": 43113},
    "arbitrum": {"sepolia": 421614},
    "base": {"sepolia": 84532},
    "celo": {"sepolia": 11142220},
    "gnosis": {"chiado": 10200},
    "linea": {"sepolia": 59141},
    "optimism": {"sepolia": 11155420},
    "scroll": {"sepolia": 534351},
}
_MAINNETS = {
    "ethereum": 1, "polygon": 137, "bsc": 56, "avalanche": 43114, "arbitrum": 42161, "base": 8453, "celo": 42220,
    "gnosis": 100, "linea": 59144, "optimism": 10, "scroll": 534352,
}  # fmt: skip
NUMBERS = {chain: {"mainnet": number, **_TESTNETS[chain]} for chain, number in _MAINNETS.items()}


class Network(NamedTuple):
    """A network: its number, what it is called, and whether it is a mainnet, a testnet or a regtest."""

    number: int
    title: str
    kind: str

    @property
    def caip2(self) -> str:
        """Its name by CAIP-2."""
        return f"eip155:{self.number}"


def by_number(number: int) -> Network:
    """The network of that number; one that is not known counts as a mainnet, whose blocks are worth keeping."""
    if number in _DEVELOPMENT:
        return Network(number, "a development network", "regtest")
    for chain, numbers in NUMBERS.items():
        for name, known in numbers.items():
            if known == number:
                return Network(number, f"{chain} {name}", "mainnet" if name == "mainnet" else "testnet")
    return Network(number, "a network without a name here", "mainnet")


class Wanted(NamedTuple):
    """The numbers that a configured chain may have, None for any; `said` is how it was asked for."""

    numbers: frozenset[int] | None
    said: str

    def check(self, name: str, shown: str, number: int) -> Network:
        """The network of an endpoint. Raises SourceError when it is not the one wanted."""
        found = by_number(number)
        if self.numbers is None or number in self.numbers:
            return found
        raise SourceError(
            f"{name}: {shown} follows {found.caip2} ({found.title}), not {self.said}; correct the URL, or say what is "
            f"meant with ?chain={ANY}&network={number}"
        )


def wanted(name: str, options: Mapping[str, str]) -> Wanted:
    """What `?chain=` (or the configured name) and `?network=` ask for: a network's name or its number.

    Raises SourceError naming those there are.
    """
    said = options.get("chain") or (name if name in EVM_CHAINS else ANY)
    chain, network = _ALIASES.get(said, said), options.get("network")
    if network is not None and network.isascii() and network.isdigit() and len(network) < 20:
        return Wanted(frozenset({int(network)}), f"eip155:{int(network)}")
    if chain == ANY:
        if network is not None:
            raise SourceError(f"{name}: network={network!r} is no number; write ?chain={ANY}&network=NUMBER (EIP-155)")
        return Wanted(None, ANY)
    known = NUMBERS[chain]
    if network is None:
        return Wanted(frozenset(known.values()), chain)
    if network not in known:
        raise SourceError(f"{name}: {chain} has no network {network!r}; use {', '.join(known)}, or a number (EIP-155)")
    return Wanted(frozenset({known[network]}), f"{chain} {network}")
