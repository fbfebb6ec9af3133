"""`http:` and `https:` an endpoint of Solana, asked by JSON-RPC for the accounts of one program that begin `a2b`, 0x00.

`https://host/path?program=BASE58&chain=solana&poll=SECONDS&from=SLOT`: known by `program`, or by the name `sol` or
`solana`. Several programs are several names. An option whose name tells a key (`api-key`, `token`, …) goes to the
endpoint as it is. Every poll is a snapshot at a finalized slot; what differs from the one before is said there (law 8).
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote

from indexer.chains import AccountRows, HeaderRows, SourceError, options
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.solana.accounts import key
from indexer.chains.solana.chain import POLL_SECONDS, SolanaChain
from indexer.chains.solana.endpoint import Endpoint

_OPTIONS = ("chain", "program", "poll", "from")
_SECRET = re.compile(r"token|key|secret|passw|auth", re.IGNORECASE)
_POLLS = range(1, 86_401)


def create(name: str, url: str, rows: HeaderRows | None = None) -> SolanaChain:
    """The chain of the endpoint at a URL, not asked anything yet. Raises SourceError saying what is wrong with it."""
    base, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    theirs = [pair for pair in pairs if pair[0] not in _OPTIONS and _SECRET.search(pair[0])]
    ours = "&".join(f"{quote(word)}={quote(value)}" for word, value in pairs if (word, value) not in theirs)
    given = options.read(name, ours, base.partition(":")[0], _OPTIONS, ("solana",))
    asked = "&".join(f"{quote(word)}={quote(value)}" for word, value in theirs)
    endpoint = Endpoint(JsonRpc(name, f"{base}?{asked}" if asked else base), _program(name, given))
    chain = SolanaChain(name, endpoint, rows if isinstance(rows, AccountRows) else None)
    chain.poll_seconds = _poll(name, given.get("poll"))
    chain.first = int(given.get("from", 0))
    return chain


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
