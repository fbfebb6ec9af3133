"""Which addresses may be connected to: a table of special networks, independent of the version of Python.

From the IANA special-purpose registries for IPv4 and IPv6 (as of 2025), and addresses that cloud providers use
internally. Of IPv6 only global unicast (2000::/3) can pass. An address that carries an IPv4 address (6to4, Teredo,
NAT64, mapped, compatible, translated, ISATAP) is refused in any case: a translator on the way would make a second,
unchecked hop. The carried address is unwrapped for the error message.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

SPECIAL: tuple[tuple[str, str], ...] = (
    # single addresses first, so that they are named for what they are
    ("0.0.0.0/32", "unspecified"),
    ("255.255.255.255/32", "broadcast"),
    ("169.254.169.254/32", "cloud metadata"),
    ("169.254.170.2/32", "cloud metadata"),
    ("168.63.129.16/32", "cloud metadata"),  # Azure, inside a public block
    ("100.100.100.200/32", "cloud metadata"),
    ("192.0.0.192/32", "cloud metadata"),
    ("fd00:ec2::254/128", "cloud metadata"),
    ("fd20:ce::254/128", "cloud metadata"),
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared (CGNAT)"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112 service"),
    ("192.52.193.0/24", "multicast relay"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112 service"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::/96", "IPv4-compatible"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "local NAT64"),
    ("100::/64", "discard-only"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "benchmarking"),
    ("2001:db8::/32", "documentation"),
    ("2001::/23", "protocol assignments"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112 service"),
    ("3ffe::/16", "reserved"),  # 6bone, given back
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "unique local"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
"""Networks that are never connected to and their kinds; the first match counts."""

_TABLE = tuple(
    (net.version, int(net.network_address), int(net.netmask), kind)
    for net, kind in ((ip_network(text), kind) for text, kind in SPECIAL)
)
_GLOBAL_UNICAST = 0b001  # the first three bits of 2000::/3
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214 §6.1: the interface identifier before the IPv4 address


def read(text: str) -> Address | None:
    """An address as a resolver writes it, with its zone index; None for any other text."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def refused(address: Address) -> str | None:
    """Why an address is never connected to, as a phrase with the address; None for a public address."""
    kind = kind_of(address)
    if kind is None:
        return None
    within = unwrap(address)
    if within is None:
        return f"{address} is {kind}"
    return f"{address} is {kind} for {within}, which is {kind_of(within) or 'public'}"


@lru_cache(maxsize=4096)
def kind_of(address: Address) -> str | None:
    """The kind of a special address, None for a public one."""
    value = int(address)
    for version, base, mask, kind in _TABLE:
        if version == address.version and value & mask == base:
            return kind
    if address.version == 6:
        if value >> 125 != _GLOBAL_UNICAST:
            return "reserved"
        if (value >> 32) & 0xFFFFFFFF in _ISATAP:
            return "ISATAP"
    return None


def unwrap(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries, None where it carries none."""
    kind, value = kind_of(address), int(address)
    if kind == "6to4":
        return IPv4Address(value >> 80 & 0xFFFFFFFF)
    if kind == "Teredo":
        return IPv4Address(~value & 0xFFFFFFFF)  # RFC 4380 §4: the client's address, each bit turned
    if kind == "local NAT64":  # RFC 6052 §2.2 for a prefix of 48 bits: around the byte that must be zero
        return IPv4Address((value >> 64 & 0xFFFF) << 16 | value >> 40 & 0xFFFF)
    if kind in ("IPv4-compatible", "IPv4-mapped", "IPv4-translated", "NAT64", "ISATAP"):
        return IPv4Address(value & 0xFFFFFFFF)
    return None


def block_of(address: Address) -> str:
    """The block that shares a budget: /24 of IPv4, /64 of IPv6."""
    value = int(address)
    if address.version == 4:
        return f"{IPv4Address(value >> 8 << 8)}/24"
    return f"{IPv6Address(value >> 64 << 64)}/64"
