"""What a pointer's domain or URI names: canonical ids, and which names are refused (law 10)."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

import idna

from parsers.reasons import Reason

MAX_URI = 2048
WELL_KNOWN = ("/.well-known/agent.json", "/.well-known/agent-card.json")

_NUMBER_LABEL = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z", re.ASCII)
_PLAIN = re.compile(r"(?:(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.(?!\Z)|\Z))+\Z", re.ASCII)
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*\Z", re.ASCII)
_CID = re.compile(
    r"(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|[zk][0-9A-Za-z]{40,110}|f[0-9a-f]{60,140})\Z", re.ASCII
)


class Locator(NamedTuple):
    """What a domain or URI names: the canonical `id` (law 10) and the `host` (an A-label domain, "" for ipfs)."""

    id: str
    host: str


def locate(uri: str) -> Locator | Reason:
    """What an https or ipfs URI names, or the reason why it names nothing.

    A URI that is exactly the well-known path of a card is named by its domain. Ports and user names are refused, and so
    are dot segments in an ipfs path: a gateway would resolve them to a path outside the CID.
    """
    scheme, rest = _split(uri)
    if len(uri) > MAX_URI or scheme not in ("https", "ipfs"):
        return Reason("pointer-uri")
    host, slash, path = rest.partition("/")
    if scheme == "ipfs":
        if not (_CID.match(host) and _PATH.match(path)):
            return Reason("pointer-uri")
        return Reason("pointer-path") if has_dot_segments(path) else Locator(f"ipfs://{host}{slash}{path}", "")
    host = host_of(uri)
    path = rest[len(host) :]
    name = a_label(host)
    if name is None:
        return Reason("pointer-domain")
    if not _PATH.match(path):
        return Reason("pointer-uri")
    return Locator(name if path in WELL_KNOWN else f"https://{name}{path or '/'}", name)


def has_dot_segments(path: str) -> bool:
    """Whether a segment of a URI path (its query is ignored) is `.` or `..` for any reader (RFC 3986 §5.2.4): also
    percent-encoded, once or repeatedly, and with a backslash as separator."""
    path = path.partition("?")[0]
    while (decoded := unquote(path)) != path:
        path = decoded
    return not {".", ".."}.isdisjoint(re.split(r"[/\\]", path))


def host_of(uri: str) -> str:
    """The host of an https URI as written, "" for every other; no judgement on it."""
    scheme, rest = _split(uri[:MAX_URI])
    return re.split(r"[/?]", rest, maxsplit=1)[0] if scheme == "https" else ""


def _split(uri: str) -> tuple[str, str]:
    """Scheme in lower case, and what follows `://` without a fragment; the scheme is "" when there is no `://`."""
    scheme, mark, rest = uri.partition("#")[0].partition("://")
    return (scheme.lower(), rest) if mark else ("", "")


def a_label(domain: str) -> str | None:
    """The lower-case A-label form of a domain name (UTS 46, then IDNA 2008), None when it is no public domain name.

    Refused: what IDNA refuses, one label only, a trailing dot, a port, a path, and everything that some resolver would
    take for an IPv4 address (a last label that is a number, as the URL standard says: `127.1`, `1.2.0x7f`).
    """
    if not domain or len(domain) > 253:
        return None
    name = _encoded(domain)
    if name is None:
        return None
    labels = name.split(".")
    return name if len(labels) > 1 and labels[-1] and not _NUMBER_LABEL.match(labels[-1]) else None


def _encoded(domain: str) -> str | None:
    """The A-label form of a name, None when IDNA refuses it. Nearly all names are plain ASCII, for which IDNA changes
    nothing but the case, in a hundred microseconds."""
    plain = domain.lower()
    if _PLAIN.match(plain):
        return plain
    try:
        return idna.encode(domain, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return None
