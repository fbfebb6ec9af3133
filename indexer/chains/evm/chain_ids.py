"""Names and chain ids (EIP-155) of EVM networks, and which of them a configured chain may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from indexer.chains import EVM_CHAINS
from indexer.errors import OtherNetworkError, SourceError

ANY = "evm"
"""The `?chain=` that allows any chain id."""

_ALIASES = {"eth": "ethereum", "erc8004": ANY}
_DEVELOPMENT = (1337, 31337)
"""The chain ids of development networks: Hardhat, Anvil and geth's --dev."""

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


class EvmNetwork(NamedTuple):
    """A network: its chain id, a title for messages, and its kind: mainnet, testnet or regtest."""

    number: int
    title: str
    kind: str

    @property
    def caip2(self) -> str:
        """Its CAIP-2 id."""
        return f"eip155:{self.number}"


def by_number(number: int) -> EvmNetwork:
    """The network with a chain id; an unknown one counts as a mainnet."""
    if number in _DEVELOPMENT:
        return EvmNetwork(number, "a development network", "regtest")
    for chain, numbers in NUMBERS.items():
        for name, other in numbers.items():
            if other == number:
                return EvmNetwork(number, f"{chain} {name}", "mainnet" if name == "mainnet" else "testnet")
    return EvmNetwork(number, "a network without a name here", "mainnet")


class AllowedNetworks(NamedTuple):
    """The chain ids that a configured chain may have, None for any; `title` names the configuration in messages."""

    numbers: frozenset[int] | None
    title: str

    def check(self, name: str, shown: str, number: int) -> EvmNetwork:
        """The network of an endpoint with chain id `number`. Raises SourceError when it is not allowed."""
        network = by_number(number)
        if self.numbers is None or number in self.numbers:
            return network
        raise OtherNetworkError(
            f"{name}: {shown} follows {network.caip2} ({network.title}), not {self.title}; correct the URL, or set "
            f"?chain={ANY}&network={number}"
        )


def allowed_networks(name: str, options: Mapping[str, str]) -> AllowedNetworks:
    """The networks that `?chain=` (or the configured name) and `?network=` (a name or chain id) allow.

    Raises SourceError naming the known ones.
    """
    name_or_alias = options.get("chain") or (name if name in EVM_CHAINS else ANY)
    chain, network = _ALIASES.get(name_or_alias, name_or_alias), options.get("network")
    if network is not None and network.isascii() and network.isdigit() and len(network) < 20:
        return AllowedNetworks(frozenset({int(network)}), f"eip155:{int(network)}")
    if chain == ANY:
        if network is not None:
            raise SourceError(
                f"{name}: network={network!r} is not a number; write ?chain={ANY}&network=NUMBER (EIP-155)"
            )
        return AllowedNetworks(None, ANY)
    by_name = NUMBERS[chain]
    if network is None:
        return AllowedNetworks(frozenset(by_name.values()), chain)
    if network not in by_name:
        raise SourceError(
            f"{name}: {chain} has no network {network!r}; use {', '.join(by_name)}, or a number (EIP-155)"
        )
    return AllowedNetworks(frozenset({by_name[network]}), f"{chain} {network}")
