"""Hosts of the reader's own machine or link, in every form that clients read."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.local_hosts import is_local_host, is_local_url, is_private_host, is_private_url, shared_url

PRIVATE = [ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]
LOCAL = [ip_network(text) for text in ("127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/32", "::1/128", "::/128", "fe80::/10")]


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/x", "HTTPS://LOCALHOST.:80/", "ws://a.localhost", "http://printer.local/", "http://127.0.0.1:1",
        "http://127.1/", "http://0x7f.1", "http://2130706433/", "http://017700000001/", "http://[::1]:8080/",
        "http://[::ffff:127.0.0.1]/", "http://[fe80::1%25eth0]/", "http://169.254.169.254/latest/meta-data", "http://0/",
        "http://me:pw@127.0.0.1/", "http://１２７.0.0.1/", "//localhost",
        "http://127。0。0｡1/", "http://localhost。/", "http://%3127.0.0.1/", "http://localhos%74/", "http:///127.0.0.1/",
        "http:/127.0.0.1/", "http:127.0.0.1", "HTTP:////localhost/",
    ],
)  # fmt: skip
def test_local_urls(url: str) -> None:
    assert is_local_url(url)
    assert shared_url(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "", "stdio", "http://[", "https://a.example/?next=http://127.0.0.1", "https://localhost.example", "http://1.1.1.1",
        "http://10.0.0.1/", "https://local.example/", "http://[2606:4700::1111]/", "http://127.0.0.1.nip.io/",
        "https://a.example/#localhost", "https://127.0.0.1@a.example/",
        "http:///a.example/127.0.0.1", "https://a.example/%31", "mailto:127.0.0.1", "urn:localhost",
    ],
)  # fmt: skip
def test_urls_that_lead_elsewhere_or_are_none_stay(url: str) -> None:
    assert not is_local_url(url)
    assert shared_url(url) == url


def addresses() -> st.SearchStrategy[IPv4Address | IPv6Address]:
    return st.ip_addresses() | st.sampled_from(LOCAL + PRIVATE).flatmap(
        lambda network: st.ip_addresses(network=network)
    )


@given(addresses())
def test_addresses_are_judged_by_their_networks(address: IPv4Address | IPv6Address) -> None:
    carried = getattr(address, "ipv4_mapped", None) or address
    is_local = any(carried in network for network in LOCAL)
    assert is_local_host(str(address)) == is_local
    assert is_private_host(str(address)) == (is_local or any(carried in network for network in PRIVATE))


@pytest.mark.parametrize(
    ("url", "is_private"),
    [
        ("http://[::]:8080/invoke", True), ("http://2130706433/", True), ("http://10.1/", True),
        ("https://agents.internal/", True), ("http://[fd00::1]/", True), ("http://192.168.1.5.:80", True),
        ("https://internal.example/", False), ("http://[", False), ("", False), ("http://172.32.0.1/", False),
    ],
)  # fmt: skip
def test_urls_that_lead_to_the_callers_own_network(url: str, is_private: bool) -> None:
    assert is_private_url(url) == is_private


@given(st.ip_addresses(network="127.0.0.0/8"), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_loopback_written_as_one_number_is_loopback(address: IPv4Address, form: str) -> None:
    assert is_local_host(form.format(int(address)))


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert shared_url(text) in ("", text)


@pytest.mark.parametrize("letter", ["\0", "\x1b", "\n", " ", "<", ">", '"', "\\", "`", "\x85", "\u202e", "\u200b"])
def test_a_url_with_markup_or_hidden_characters_is_not_passed_on(letter: str) -> None:
    assert shared_url(f"https://a.example/x{letter}y") == ""
    assert shared_url("https://{tenant}.a.example/ü?x='y'") != ""
