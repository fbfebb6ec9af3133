"""Names that need no IDNA are read as IDNA reads them."""

from __future__ import annotations

import idna
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parsers.pointers.locator import Locator, a_label, is_web_url, locate
from parsers.pointers.pointer import read_map
from parsers.reasons import Reason

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"

NAMES = st.lists(st.text("aZ09-", max_size=6) | st.sampled_from(["xn--a", "ab--c", "a" * 63, "a" * 64]), max_size=4)


@given(NAMES.map(".".join) | st.text("ab-._1İK\n ", max_size=12))
@example("a.b\n")
@example("a.b.")
@example("K.example")  # the sign of kelvin is a small k in lower case
def test_a_name_is_what_idna_makes_of_it(name: str) -> None:
    try:
        decoded = idna.encode(name, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        decoded = ""
    result = a_label(name)
    assert result in (decoded, None)
    if result is None and decoded:
        last = decoded.split(".")[-1]
        assert len(name) > 253 or "." not in decoded or not last or last.isdigit() or last.lower().startswith("0x")


@pytest.mark.parametrize(
    "path",
    [
        "..",
        ".",
        "../../x",
        "a/../../x",
        "a/./b",
        "%2e%2e/%2E%2E/x",
        ".%2e/x",
        "%2E",
        "a%2f..%2fx",
        "..%5cx",
        "a%5C%2e%2e%5Cx",
        "%252e%252e/x",
        "..?format=raw",
        "%3f/../x",
    ],
)
def test_an_ipfs_path_that_could_lead_out_of_its_cid_is_no_locator(path: str) -> None:
    assert locate(f"ipfs://{CID}/{path}") == Reason("pointer-path")


@pytest.mark.parametrize("path", ["", "/", "/a..b/...", "/.well-known/agent.json", "/a?..", "/a?x=../..", "/%2e%2e%2e"])
def test_dots_within_a_name_or_a_query_are_none_of_these(path: str) -> None:
    assert locate(f"ipfs://{CID}{path}") == Locator(f"ipfs://{CID}{path}", "")


def test_a_backslash_as_such_is_no_uri() -> None:
    assert locate(f"ipfs://{CID}/..\\x") == Reason("pointer-uri")


def test_a_pointer_that_leads_out_of_its_cid_is_refused_with_that_reason() -> None:
    fields = {"app": "x", "type": "a2b", "hash": "00" * 32, "uri": f"ipfs://{CID}/%2e%2e/x"}
    result = read_map(fields)
    assert result is not None
    assert (result.id, result.reasons) == (None, (Reason("pointer-path"),))


@pytest.mark.parametrize(
    "url",
    ["https://a.example", "http://A.example:8080/x?y=%20#z", "https://[::1]:3/", "https://a.b?x=[1]", "HTTPS://a.b/"],
)
def test_urls_of_the_web(url: str) -> None:
    assert is_web_url(url)


@pytest.mark.parametrize("letter", [*map(chr, range(0x21)), *'<>"\\^`{|}', "\x7f", "\x85", "\u202e", "ü", "\u212a"])
def test_a_url_with_another_character_than_rfc_3986_allows_is_none(letter: str) -> None:
    for url in (f"https://a.example/{letter}", f"https://a{letter}.example/", f"https://a.example/x{letter}y"):
        assert not is_web_url(url)
