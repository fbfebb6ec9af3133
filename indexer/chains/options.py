"""Parses the options in the query of a chain's URL, for every kind of source. Unknown options are errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, parse_qsl, urlsplit

from indexer.errors import SourceError
from indexer.headers.networks import COINS

_UNITS = {"from": "blocks", "finality": "blocks", "lookback": "bytes"}


def read(name: str, query: str, source: str, takes: Sequence[str], chains: Sequence[str] = COINS) -> dict[str, str]:
    """The options of the chain `name`; its kind of `source` takes the options `takes`. Raises SourceError naming the
    invalid option.

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
        raise SourceError(f"{name}: an option appears twice in {query!r}")
    if options.get("auxpow", "unchecked") != "unchecked":
        raise SourceError(f"{name}: auxpow={options['auxpow']!r} is invalid: leave it out, or write auxpow=unchecked")
    if "chain" in options and options["chain"] not in chains:
        raise SourceError(f"{name}: chain={options['chain']!r} is not available from {source}; use {', '.join(chains)}")
    return options


def web_address(url: str) -> SplitResult | None:
    """The parts of the URL of a web server, None for any other text."""
    try:
        parts = urlsplit(url)
        return parts if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def check_port(name: str, url: str, what: str = "its URL") -> None:
    """Raise SourceError naming the port of `what` if it is not a number from 1 to 65535. Skips URLs with an @ after the
    port: a password may not have been percent-encoded, and must not appear in the message."""
    authority, *rest = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)
    port = re.fullmatch(r"(?:.*@)?(?:\[[^\]]*\]|[^:\[\]]*):(.+)", authority)
    if port is None or any("@" in part for part in rest):
        return
    if not (re.fullmatch("[0-9]{1,5}", port[1]) and 1 <= int(port[1]) <= 65_535):
        raise SourceError(f"{name}: the port of {what} is {port[1][:20]!a}, and must be a number from 1 to 65535")
