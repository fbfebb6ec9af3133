"""Locators: canonical ids of domains and URIs, and the rules for valid names (law 10)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from parsers.local_hosts import has_port
from parsers.reasons import Reason

MAX_URI = 2048
WELL_KNOWN = ("/.well-known/agent.json", "/.well-known/agent-card.json")

_WEB_URL = re.compile(
    r"https?://(?:\[[0-9A-F:.]+\]|[A-Z0-9][A-Z0-9._-]*)(?::[0-9]{1,5})?(?:[/?#][!#-;=?-Z\[\]_A-Z~]*)?",
    re.IGNORECASE | re.ASCII,
)
_NUMBER_LABEL = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z", re.ASCII)
_PLAIN = re.compile(r"(?:(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.(?!\Z)|\Z))+\Z", re.ASCII)
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*\Z", re.ASCII)
_CID = re.compile(
    r"(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|[zk][0-9A-Za-z]{40,110}|f[0-9a-f]{60,140})\Z", re.ASCII
)


class Locator(NamedTuple):
    """The canonical `id` of a domain or URI (law 10), and its `host` (an A-label domain, "" for ipfs)."""

    id: str
    host: str


def locate(uri: str) -> Locator | Reason:
    """The locator of an https or ipfs URI, or the reason why it is invalid.

    The id of a URI with exactly a well-known path of cards is its domain. Invalid are ports, user names, and dot
    segments in an ipfs path, which a gateway would resolve to a path outside the CID. `ipfs://ipfs/<CID>`, which many
    tools write, is `ipfs://<CID>`.
    """
    scheme, rest = _split(uri)
    if len(uri) > MAX_URI or scheme not in ("https", "ipfs"):
        return Reason("pointer-uri")
    if scheme == "ipfs":
        host, slash, path = rest.removeprefix("ipfs/").partition("/")
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
    """Whether a segment of a URI path (without its query) is `.` or `..` for any parser (RFC 3986 §5.2.4): also
    percent-encoded, once or repeatedly, and with a backslash as separator."""
    path = path.partition("?")[0]
    while (decoded := unquote(path)) != path:
        path = decoded
    return not {".", ".."}.isdisjoint(re.split(r"[/\\]", path))


def host_of(uri: str) -> str:
    """The host of an https URI as written, valid or not; "" for any other URI."""
    scheme, rest = _split(uri[:MAX_URI])
    return re.split(r"[/?]", rest, maxsplit=1)[0] if scheme == "https" else ""


def _split(uri: str) -> tuple[str, str]:
    """The scheme in lower case ("" without `://`), and the text after `://` without the fragment."""
    scheme, mark, rest = uri.partition("#")[0].partition("://")
    return (scheme.lower(), rest) if mark else ("", "")


def a_label(domain: str) -> str | None:
    """The lower-case A-label form of a domain name (UTS 46, then IDNA 2008); None for an invalid name.

    Invalid are names that IDNA refuses, a single label, a trailing dot, a port, a path, and names that a resolver could
    take for an IPv4 address (their last label is a number, as in the URL standard: `127.1`, `1.2.0x7f`).
    """
    if not domain or len(domain) > 253:
        return None
    name = domain.lower()
    if not _PLAIN.match(name):  # of the others, nearly all, IDNA would only change the case, in a hundred microseconds
        import idna  # only here, as it takes 20 ms to import and few names need it

        try:
            name = idna.encode(domain, uts46=True, std3_rules=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            return None
    labels = name.split(".")
    return name if len(labels) > 1 and labels[-1] and not _NUMBER_LABEL.match(labels[-1]) else None


def is_web_url(text: str) -> bool:
    """Whether a text of a stranger is an http or https URL of characters that RFC 3986 allows, with a host and without
    a user: no control characters, spaces or markup."""
    return bool(_WEB_URL.fullmatch(text)) and has_port(text)


@lru_cache(maxsize=256)  # called twice per listing
def url_host(url: str) -> str:
    """The domain name of an http or https URL as A-labels; "" without one (an IP address is not a domain name)."""
    try:
        parts = urlsplit(url)
        return a_label(parts.hostname or "") or "" if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""
