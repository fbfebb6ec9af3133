"""Hosts that mean another machine to each reader: loopback and link-local ones. Pure: names are not resolved."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

_SPECIAL = re.compile(r"(?:https?|wss?|ftp):/*", re.IGNORECASE)
"""Schemes of URLs with a host after any number of slashes in browsers (WHATWG URL)."""
_OCTAL = re.compile(r"0[0-7]+")
_MARKUP = re.compile(r"""[ <>"\\`]""")
_NAMES = (".localhost", ".local", ".localdomain")


def shared_url(url: str) -> str:
    """A URL for readers elsewhere: "" in place of one that would lead each of them to itself, or that has control
    characters, spaces or markup."""
    return "" if is_local_url(url) or not url.isprintable() or _MARKUP.search(url) else url


def is_local_url(url: str) -> bool:
    """Whether a URL is on the reader's own machine or link."""
    try:
        host = urlsplit(_SPECIAL.sub("//", url, count=1) if _SPECIAL.match(url) else url).hostname
    except ValueError:
        return False
    return host is not None and is_local_host(unquote(host))


def is_local_host(host: str) -> bool:
    """Whether a host (a name, or an address in any form that `inet_aton` takes) is loopback, link-local or 0.0.0.0."""
    name = normalize("NFKC", host).replace("。", ".").lower().rstrip(".")
    if f".{name}".endswith(_NAMES):
        return True
    address = _address(name)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and (address.is_loopback or address.is_link_local or address.is_unspecified)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """An address; clients read `127.1`, `0x7f000001` and `2130706433` as IPv4, too."""
    try:
        return ip_address(name)
    except ValueError:
        pass
    try:
        *heads, last = (int(part, 8 if _OCTAL.fullmatch(part) else 0) for part in name.split("."))
    except ValueError:
        return None
    room = 4 - len(heads)
    if room < 1 or any(not 0 <= head < 256 for head in heads) or not 0 <= last < 256**room:
        return None
    return IPv4Address(bytes(heads) + last.to_bytes(room, "big"))
