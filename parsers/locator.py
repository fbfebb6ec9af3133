"""What a pointer's domain or URI names: canonical ids, and which names are refused (law 10)."""

from __future__ import annotations

import re
from typing import NamedTuple

import idna

MAX_URI = 2048
WELL_KNOWN = ("/.well-known/agent.json", "/.well-known/agent-card.json")

_NUMBER_LABEL = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z", re.ASCII)
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*\Z", re.ASCII)
_CID = re.compile(
    r"(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|[zk][0-9A-Za-z]{40,110}|f[0-9a-f]{60,140})\Z", re.ASCII
)


class Locator(NamedTuple):
    """What a domain or URI names: the canonical `id` (law 10) and the `host` (an A-label domain, "" for ipfs)."""

    id: str
    host: str


def locate(uri: str) -> Locator | None:
    """What an https or ipfs URI names (law 10), None when it is neither or its host is no domain name.

    A URI that is exactly the well-known path of a card is named by its domain. Ports and user names are refused.
    """
    if len(uri) > MAX_URI:
        return None
    scheme, mark, rest = uri.partition("#")[0].partition("://")
    if not mark:
        return None
    if scheme.lower() == "ipfs":
        cid, slash, path = rest.partition("/")
        return Locator(f"ipfs://{cid}{slash}{path}", "") if _CID.match(cid) and _PATH.match(path) else None
    cut = re.search(r"[/?]", rest)
    host, path = (rest[: cut.start()], rest[cut.start() :]) if cut else (rest, "")
    name = a_label(host) if scheme.lower() == "https" and _PATH.match(path) else None
    if name is None:
        return None
    return Locator(name if path in WELL_KNOWN else f"https://{name}{path or '/'}", name)


def a_label(domain: str) -> str | None:
    """The lower-case A-label form of a domain name (UTS 46, then IDNA 2008), None when it is no public domain name.

    Refused: what IDNA refuses, one label only, a trailing dot, a port, a path, and everything that some resolver would
    take for an IPv4 address (a last label that is a number, as the URL standard says: `127.1`, `1.2.0x7f`).
    """
    if not domain or len(domain) > 253:
        return None
    try:
        name = idna.encode(domain, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return None
    labels = name.split(".")
    return name if len(labels) > 1 and labels[-1] and not _NUMBER_LABEL.match(labels[-1]) else None
