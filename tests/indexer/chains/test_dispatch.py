"""Which module makes the chain of a URL."""

from __future__ import annotations

import pytest

import indexer.chains as chains
from indexer.errors import SourceError


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "HTTP_CHAINS", {"eth": "evm", "polygon": "evm", "solana": "solana"})
    monkeypatch.setattr(chains, "HTTP_OPTIONS", {"contract": "evm", "program": "solana"})


@pytest.mark.parametrize(
    ("name", "url", "module"),
    [
        ("bsv", "http://user:password@node:8332", "indexer.chains.node"),
        ("mine", "https://node?chain=bsv", "indexer.chains.node"),
        ("eth", "https://node/v3/key", "evm"),
        ("mine", "https://node/v3/key?contract=0xaa&from=7", "evm"),
        ("mine", "https://node/v3/key?chain=polygon", "evm"),
        ("solana", "https://node", "solana"),
        ("mine", "https://node?from=7&program=aa", "solana"),
        # what is said beats the name, and the name beats what an option looks like
        ("eth", "https://node?chain=bsv", "indexer.chains.node"),
        ("eth", "https://node?chain=solana", "solana"),
        ("solana", "https://node?contract=0xaa", "solana"),
        # a module refuses the options that it does not take; other schemes are what they are
        ("mine", "https://node?chain=gopher&contract=0xaa", "indexer.chains.node"),
        ("eth", "files:/blocks?chain=bsv", "indexer.chains.files"),
        ("eth", "junglebus:abc", "indexer.chains.junglebus"),
    ],
)
def test_a_url_over_http_is_known_by_what_it_says_or_its_name_or_its_options(name: str, url: str, module: str) -> None:
    assert chains.module(name, url) == module


def test_an_unknown_scheme_is_refused_with_those_there_are() -> None:
    with pytest.raises(SourceError, match="eth: 'gopher' is not a known kind of source; there are files, http"):
        chains.module("eth", "gopher://node?contract=0xaa")
