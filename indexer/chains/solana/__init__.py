"""`http:` and `https:` an endpoint of Solana, asked by JSON-RPC for the accounts of one program that begin `a2b`, 0x00.

`https://host/path?program=BASE58&chain=solana&poll=SECONDS&from=SLOT`: known by `program`, or by the name `sol` or
`solana`. Several programs are several names; a name repeated is several endpoints of one cluster. An option whose name
tells a key (`api-key`, `token`, …) goes to the endpoint as it is. Every poll is a snapshot at a finalized slot; what
differs from the one before is said there (law 8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote

from indexer.chains import AccountRows, HeaderRows, SourceError, options
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.solana.accounts import key
from indexer.chains.solana.chain import POLL_SECONDS, SolanaChain
from indexer.chains.solana.endpoint import Endpoint

_OURS = ("program", "poll", "from")
_OPTIONS = ("chain", *_OURS)
_SECRET = re.compile(r"token|key|secret|passw|auth", re.IGNORECASE)
_POLLS = range(1, 86_401)


def create(name: str, url: str, rows: HeaderRows | None = None) -> SolanaChain:
    """The chain of the endpoint at a URL, not asked anything yet. Raises SourceError saying what is wrong with it."""
    return join(name, [url], rows)


def join(name: str, urls: Sequence[str], rows: HeaderRows | None = None) -> SolanaChain:
    """The chain of several endpoints: the first that answers is asked. Raises SourceError."""
    sources = [_read(name, url) for url in urls]
    given = sources[0][1]
    if any(other.get(word) != given.get(word) for word in _OURS for _, other in sources):
        raise SourceError(f"{name}: its sources differ in program, poll or from; give all of them the same")
    endpoint = Endpoint([rpc for rpc, _ in sources], _program(name, given))
    chain = SolanaChain(name, endpoint, rows if isinstance(rows, AccountRows) else None)
    chain.poll_seconds = _poll(name, given.get("poll"))
    chain.first = int(given.get("from", 0))
    return chain


def _read(name: str, url: str) -> tuple[JsonRpc, dict[str, str]]:
    """The endpoint at a URL, and the options that are ours."""
    base, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    theirs = [pair for pair in pairs if pair[0] not in _OPTIONS and _SECRET.search(pair[0])]
    ours = "&".join(f"{quote(word)}={quote(value)}" for word, value in pairs if (word, value) not in theirs)
    given = options.read(name, ours, base.partition(":")[0], _OPTIONS, ("solana",))
    asked = "&".join(f"{quote(word)}={quote(value)}" for word, value in theirs)
    return JsonRpc(name, f"{base}?{asked}" if asked else base), given


def _program(name: str, given: dict[str, str]) -> str:
    program = given.get("program", "")
    if key(program) is None:
        raise SourceError(
            f"{name}: program={program[:100]!a} is no address of a program; write ?program= and its 32 bytes in base58"
        )
    return program


def _poll(name: str, text: str | None) -> float:
    if text is None:
        return POLL_SECONDS
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) in _POLLS):
        raise SourceError(f"{name}: poll={text[:60]!a} is not a number of seconds from 1 to {_POLLS[-1]:,}")
    return float(text)
