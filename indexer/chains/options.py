"""The options in the query of a chain's URL: read the same way for every kind of source, unknown ones refused."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl

from indexer.chains import SourceError
from indexer.networks import COINS

_UNITS = {"from": "blocks", "finality": "blocks", "lookback": "bytes"}


def read(name: str, query: str, source: str, takes: Sequence[str], chains: Sequence[str] = COINS) -> dict[str, str]:
    """The options of the chain `name`, whose kind of `source` takes these. Raises SourceError naming the one at fault.

    `from` and `finality` (blocks) and `lookback` (bytes) are decimal numbers, `chain` is one of `chains`.
    """
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    for key, value in pairs:
        if key not in takes:
            raise SourceError(f"{name}: unknown option {key!r}; {source}: takes {', '.join(takes)}")
        if key in _UNITS and not (value.isascii() and value.isdigit() and len(value) < 19):
            raise SourceError(f"{name}: {key}={value!r} is not a number of {_UNITS[key]}")
    if len(options) < len(pairs):
        raise SourceError(f"{name}: an option is given twice in {query!r}")
    if "chain" in options and options["chain"] not in chains:
        raise SourceError(f"{name}: chain={options['chain']!r} is not read from {source}; use {', '.join(chains)}")
    return options
