"""`http:` and `https:` an endpoint of Solana (JSON-RPC), for the accounts of one program that begin `a2b`, 0x00.

`https://host/path?program=BASE58&chain=solana&poll=SECONDS&from=SLOT&max-answer=MIB`: recognised by `program`, or by
the name `sol` or `solana`. Several programs have several names; a repeated name has several endpoints of one cluster.
An option with a name that indicates a key (`api-key`, `token`, …) is passed to the endpoint. Every poll is a snapshot
at a finalized slot; each difference from the previous one is an event at that slot (law 8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote

from indexer.chains import ChainStore, options
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.solana.accounts import address_bytes
from indexer.chains.solana.chain import SolanaChain
from indexer.chains.solana.endpoint import SolanaEndpoint
from indexer.errors import SourceError

_OURS = ("program", "poll", "from", "max-answer")
_OPTIONS = ("chain", *_OURS)
_SECRET = re.compile(r"token|key|secret|passw|auth", re.IGNORECASE)
_POLLS, _MIB = range(1, 86_401), range(1, 1_025)


def create(name: str, url: str, store: ChainStore | None = None) -> SolanaChain:
    """The chain of the endpoint at a URL, not connected yet. Raises SourceError for a wrong URL."""
    return join(name, [url], store)


def join(name: str, urls: Sequence[str], store: ChainStore | None = None) -> SolanaChain:
    """The chain of several endpoints; the first endpoint that answers is used. Raises SourceError."""
    sources = [_read(name, url) for url in urls]
    options_read = sources[0][1]
    if any(other.get(word) != options_read.get(word) for word in _OURS for _, other in sources):
        raise SourceError(f"{name}: its sources differ in {', '.join(_OURS)}; give all of them the same")
    endpoint = SolanaEndpoint([rpc for rpc, _ in sources], _program(name, options_read))
    chain = SolanaChain(name, endpoint, store)
    if (poll := options_read.get("poll")) is not None:
        chain.poll_seconds = _number(name, "poll", poll, "seconds", _POLLS)
    if (most := options_read.get("max-answer")) is not None:
        endpoint.answer_bytes = _number(name, "max-answer", most, "MiB", _MIB) << 20
    chain.first = int(options_read.get("from", 0))
    return chain


def _read(name: str, url: str) -> tuple[JsonRpc, dict[str, str]]:
    """The endpoint at a URL, and the options that are ours."""
    base, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    theirs = [pair for pair in pairs if pair[0] not in _OPTIONS and _SECRET.search(pair[0])]
    ours = "&".join(f"{quote(word)}={quote(value)}" for word, value in pairs if (word, value) not in theirs)
    options_read = options.read(name, ours, base.partition(":")[0], _OPTIONS, ("solana",))
    passed = "&".join(f"{quote(word)}={quote(value)}" for word, value in theirs)
    return JsonRpc(name, f"{base}?{passed}" if passed else base), options_read


def _program(name: str, options_read: dict[str, str]) -> str:
    program = options_read.get("program", "")
    if address_bytes(program) is None:
        raise SourceError(
            f"{name}: program={program[:100]!a} is not an address of a program; write ?program= and its 32 bytes in "
            "base58"
        )
    return program


def _number(name: str, option: str, text: str, unit: str, allowed: range) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) in allowed):
        raise SourceError(f"{name}: {option}={text[:60]!a} is not a number of {unit} from 1 to {allowed[-1]:,}")
    return int(text)
