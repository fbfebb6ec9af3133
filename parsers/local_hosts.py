"""Hosts that mean another machine to each reader: loopback, link-local and private ones. Pure: names are not
resolved."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

_SPECIAL = re.compile(r"(?:https?|wss?|ftp):/*", re.IGNORECASE)
"""Schemes of URLs with a host after any number of slashes in browsers (WHATWG URL)."""
_OCTAL = re.compile(r"0[0-7]+")
_MARKUP = re.compile(r"""[ <>"\\`]""")
_PUBLIC_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)+")
_NAMES = (".localhost", ".local", ".localdomain")
_PRIVATE = tuple(map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")))
"""The networks of RFC 1918, RFC 6598 and RFC 4193."""


def shared_url(url: str) -> str:
    """A URL for readers elsewhere: "" in place of a URL that would lead each reader to itself, or that has control
    characters, spaces or markup."""
    return "" if is_local_url(url) or not url.isprintable() or _MARKUP.search(url) else url


def is_local_url(url: str) -> bool:
    """Whether a URL is on the reader's own machine or link."""
    return is_local_host(_host(url))


def is_private_url(url: str) -> bool:
    """Whether a URL is on the reader's own machine, link or network: local, in a private network, or a name under
    `.internal`."""
    return is_private_host(_host(url))


def is_public_url(url: str) -> bool:
    """Whether a URL (http or https) has a port that exists, if any, and an address or a name with a dot as its host
    that is not private, so not with a placeholder such as `<your host>`."""
    host = _name(_host(url))
    if not _is_web(url) or not has_port(url) or is_private_host(host):
        return False
    return _address(host) is not None or _PUBLIC_NAME.fullmatch(host) is not None


def is_unreachable_url(url: str) -> bool:
    """Whether a URL (http or https) is neither private nor public: nobody can reach its host or port."""
    return _is_web(url) and not is_private_url(url) and not is_public_url(url)


def has_port(url: str) -> bool:
    """Whether the port of a URL, if it names one, is from 1 to 65535."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def is_local_host(host: str) -> bool:
    """Whether a host (a name, or an address in any form that `inet_aton` takes) is loopback, link-local or 0.0.0.0."""
    name = _name(host)
    return f".{name}".endswith(_NAMES) or _is_local(_address(name))


def is_private_host(host: str) -> bool:
    """Whether a host is local, in a private network, or a name under `.internal`."""
    name = _name(host)
    if f".{name}".endswith((*_NAMES, ".internal")):
        return True
    address = _address(name)
    return _is_local(address) or (address is not None and any(address in network for network in _PRIVATE))


def _host(url: str) -> str:
    """The host of a URL, "" without one."""
    try:
        host = urlsplit(_SPECIAL.sub("//", url, count=1) if _SPECIAL.match(url) else url).hostname
    except ValueError:
        return ""
    return unquote(host or "")


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _name(host: str) -> str:
    return normalize("NFKC", host).replace("。", ".").lower().rstrip(".")


def _is_local(address: IPv4Address | IPv6Address | None) -> bool:
    return address is not None and (address.is_loopback or address.is_link_local or address.is_unspecified)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """An address; clients read `127.1`, `0x7f000001` and `2130706433` as IPv4, too. One that carries an IPv4 address is
    that."""
    try:
        address = ip_address(name)
    except ValueError:
        pass
    else:
        return getattr(address, "ipv4_mapped", None) or address
    try:
        *heads, last = (int(part, 8 if _OCTAL.fullmatch(part) else 0) for part in name.split("."))
    except ValueError:
        return None
    room = 4 - len(heads)
    if room < 1 or any(not 0 <= head < 256 for head in heads) or not 0 <= last < 256**room:
        return None
    return IPv4Address(bytes(heads) + last.to_bytes(room, "big"))
