"""Registrable domains: what one owner can make names under for nothing, and so what shares a budget."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


@cache
def _suffixes() -> PublicSuffixList:
    """The Public Suffix List in the snapshot that its package brings (56 ms to read), private suffixes included."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


@lru_cache(maxsize=65_536)
def registrable(host: str) -> str:
    """The public suffix of an A-label host and one label more; the host itself, where it is a public suffix."""
    return _suffixes().privatesuffix(host) or host
