"""The table of addresses against the IANA registries written out as ranges, and names against our own eyes."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexer import public_addresses as addresses
from indexer.fetcher import robots
from indexer.fetcher.budgets import registrable
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.target import follow, target

# First and last address of every block that the IANA special-purpose registries list, of what is reserved, and of what
# clouds keep for themselves. Written from the registries, in another form than the code's, and compared as numbers.
V4 = [
    ("0.0.0.0", "0.255.255.255"),  # noqa: S104
    ("10.0.0.0", "10.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.31.196.0", "192.31.196.255"),
    ("192.52.193.0", "192.52.193.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("192.175.48.0", "192.175.48.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "239.255.255.255"),
    ("240.0.0.0", "255.255.255.255"),
]
V6 = [
    ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),  # below global unicast: ::, mapped, NAT64, discard, …
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),  # Teredo, benchmarking, ORCHID, …
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"),
    ("3ffe::", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),  # above: unique local, link-local, multicast, reserved
]
EDGES = [
    kind(number)
    for table, kind, most in ((V4, IPv4Address, (1 << 32) - 1), (V6, IPv6Address, (1 << 128) - 1))
    for first, last in table
    for boundary in (int(ip_address(first)), int(ip_address(last)))
    for number in (boundary - 1, boundary, boundary + 1)
    if 0 <= number <= most
]


def special(address: IPv4Address | IPv6Address) -> bool:
    """The slow way: every range in turn, and the text of an ISATAP address."""
    table = V4 if isinstance(address, IPv4Address) else V6
    if any(int(ip_address(first)) <= int(address) <= int(ip_address(last)) for first, last in table):
        return True
    return isinstance(address, IPv6Address) and address.exploded[20:29] in ("0000:5efe", "0200:5efe")


@pytest.mark.parametrize("address", EDGES, ids=str)
def test_the_edges_of_every_block_are_where_the_registries_put_them(address: IPv4Address | IPv6Address) -> None:
    assert (addresses.kind_of(address) is not None) == special(address)


@given(st.ip_addresses() | st.integers(0x2000 << 112, 0x4000 << 112).map(IPv6Address))
@example(ip_address("2a00:1450::5efe:8.8.8.8"))
@example(ip_address("2a00:1450::200:5efe:808:808"))
@example(ip_address("2606:4700::1111"))
def test_an_address_is_special_where_the_registries_say_so(address: IPv4Address | IPv6Address) -> None:
    assert (addresses.kind_of(address) is not None) == special(address)
    assert (addresses.refused(address) is None) == (not special(address))


@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_unwrapped(inner: IPv4Address) -> None:
    value, text = int(inner), str(inner)
    high, low = f"{value >> 16:x}", f"{value & 0xFFFF:x}"
    flipped = value ^ 0xFFFFFFFF
    wrapped = [
        f"::ffff:{text}",
        f"::ffff:0:{text}",
        f"64:ff9b::{text}",
        f"2002:{high}:{low}::1",
        f"2001:0:4136:e378:8000:63bf:{flipped >> 16:x}:{flipped & 0xFFFF:x}",
        f"2a00:1450:1:2:0:5efe:{high}:{low}",
        f"64:ff9b:1:{high}:{value >> 8 & 0xFF:x}:{(value & 0xFF) << 8:x}::",
    ]
    for item in wrapped:
        address = IPv6Address(item)
        assert addresses.unwrap(address) == inner, item
        phrase = addresses.refused(address)
        assert phrase is not None
        assert f"for {inner}, which is {addresses.kind_of(inner) or 'public'}" in phrase


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("169.254.169.254", "169.254.169.254 is cloud metadata"),
        ("255.255.255.255", "255.255.255.255 is broadcast"),
        ("::ffff:10.0.0.1", "for 10.0.0.1, which is private"),
        ("2002:c0a8:101::", "2002:c0a8:101:: is 6to4 for 192.168.1.1, which is private"),
        ("fe80::1%eth0", "is link-local"),
    ],
)
def test_a_refused_address_is_named_for_what_it_is(text: str, phrase: str) -> None:
    address = addresses.read(text)
    assert address is not None
    assert phrase in (addresses.refused(address) or "")


@given(st.ip_addresses(v=4), st.ip_addresses(v=6))
def test_blocks_are_24_and_64_bits(four: IPv4Address, six: IPv6Address) -> None:
    assert addresses.block_of(four) == f"{'.'.join(str(four).split('.')[:3])}.0/24"
    first = IPv6Address(f"{six.exploded[:19]}::")
    assert addresses.block_of(six) == f"{first}/64"


def test_what_one_owner_can_make_for_nothing_shares_a_domain() -> None:
    assert registrable("a.b.agent.co.uk") == "agent.co.uk"
    assert registrable("agent.co.uk") == "agent.co.uk"
    assert registrable("someone.github.io") == "someone.github.io"
    assert registrable("github.io") == "github.io"
    assert registrable("x.agent.xn--p1ai") == "agent.xn--p1ai"
    assert registrable("x.agent.unheard-of") == "agent.unheard-of"


@given(st.text(max_size=60) | st.from_regex(r"\A(https?|ftp)://[a-z0-9.:@\[\]%-]{0,30}(/[ -~]{0,20})?\Z"))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        result = target(text)
    except FetchError:
        return
    assert (result.scheme, result.port) == ("https", 443)
    assert target(result.url) == result
    assert "@" not in result.host


@given(st.text(max_size=60) | st.from_regex(r"\A(//|/|\.\./|\?)?[ -~]{0,30}\Z"))
def test_a_redirect_to_any_text_is_a_target_or_refused(text: str) -> None:
    parsed = target("https://agent.example/a/b?c")
    try:
        result = follow(parsed, text)
    except FetchError:
        return
    assert (result.scheme, result.port) == ("https", 443)
    assert target(result.url) == result


ROBOTS = b"""
User-agent: *
Disallow: /

User-agent: other
user-agent: A2B-Registry   # us
Disallow: /private/
Disallow: /*.bak$
Disallow: /a*b*c
Allow: /private/well-known
Allow: /*/both
Disallow: /x/both
Disallow:

User-agent: other
Disallow: /other
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/.well-known/agent.json", True),
        ("/private/x", False),
        ("/private/well-known/agent.json", True),
        ("/x.bak", False),
        ("/x.bak?y", True),
        ("/a1b2c3", False),
        ("/abc", False),
        ("/acb", True),
        ("/x/both", True),
        ("/other", True),
    ],
)
def test_an_opt_out_is_read_as_its_standard_says(path: str, allowed: bool) -> None:
    assert robots.read(ROBOTS).allow(path) is allowed


def test_rules_for_other_crawlers_do_not_hold_for_us() -> None:
    assert robots.read(b"User-agent: *\nDisallow: /").allow("/x")
    assert not robots.read(b"User-agent: a2b-registry\nDisallow: /").allow("/x")
    assert not robots.read(b"User-agent: a2b-registry\nUser-agent: *\nDisallow: /").allow("/x")
    assert robots.read(b"User-agent: a2b-registry\nDisallow: /\nUser-agent: *\nAllow: /").allow("/x") is False


AGENTS = st.sampled_from(["User-agent: a2b-registry", "user-AGENT : A2B-Registry # us", "User-agent: *", "User-agent:"])
LINES = st.sampled_from(["Allow: /a", "disallow:/", "Disallow:", "Disallow: /b*$ # c", "Sitemap: /s", "", "Allow /a"])


def read_by_groups(body: bytes) -> tuple[tuple[str, bool], ...]:
    """The rules of the groups that name us, by a plain second reader: a name after a rule begins another group."""
    groups: list[tuple[set[str], list[tuple[str, bool]]]] = [(set(), [])]
    for line in body.decode("utf-8", "replace").splitlines():
        name, colon, value = (part.strip() for part in line.split("#")[0].partition(":"))
        if colon and name.lower() == "user-agent":
            if groups[-1][1]:
                groups.append((set(), []))
            groups[-1][0].add(value.lower())
        elif colon and name.lower() in ("allow", "disallow"):
            groups[-1][1].append((value, name.lower() == "allow"))
    return tuple(rule for names, rules in groups if "a2b-registry" in names for rule in rules if rule[0])


@given(st.lists(AGENTS | LINES | st.text(max_size=30), max_size=12), st.binary(max_size=100), st.text(max_size=40))
def test_any_robots_is_read_as_a_plain_second_reader_does(lines: list[str], rest: bytes, path: str) -> None:
    body = "\n".join(lines).encode("utf-8", "replace") + b"\n" + rest
    rules = robots.read(body)
    assert rules.patterns == read_by_groups(body)
    assert rules.allow(f"/{path}") or not all(allows for _, allows in rules.patterns)


def test_so_many_rules_of_robots_are_read_and_no_more() -> None:
    many = robots.read(b"User-agent: a2b-registry\n" + b"Disallow: /x\n" * 1_000 + b"Disallow: /" + b"y" * 1_000)
    assert many.patterns == (("/x", False),) * robots.MAX_RULES
    [(long, _)] = robots.read(b"User-agent: a2b-registry\nDisallow: /" + b"y" * 1_000).patterns
    assert len(long) == robots.MAX_PATTERN


@given(st.text("ab*$/", max_size=8), st.text("ab$/", max_size=8))
def test_patterns_fit_as_a_regular_expression_says(pattern: str, path: str) -> None:
    whole = pattern.endswith("$")
    body = ".*".join(re.escape(part) for part in pattern.removesuffix("$").split("*"))
    expected = re.match(body + (r"\Z" if whole else ""), path) is not None
    message = robots.RobotsRules(((pattern, False),)).allow(path)
    assert message is not expected
