"""Pointers and the names they give: every form built and read back, every refusal, and any bytes."""

from __future__ import annotations

import base64
import json
from hashlib import sha256

import idna
import pytest
from Cryptodome.Hash import keccak
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.script import p2pkh, push, pushes
from parsers.cards import Kind
from parsers.pointers import pointer
from parsers.pointers.locator import Locator, a_label, host_of, locate
from parsers.pointers.pointer import (
    Pointer,
    build,
    read,
    read_evm_log,
    read_map,
    read_solana_account,
    read_split,
)
from parsers.reasons import Reason
from tests.parsers.writers import build_split

DIGEST = sha256(b"card").digest()
CARD = b'{"name":"Echo","url":"https://echo.example","skills":[{"id":"echo"}]}'

labels = st.from_regex(r"[a-z0-9]([a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
domains = st.lists(labels, min_size=1, max_size=3).map(lambda some: ".".join([*some, "example"]))
digests = st.binary(min_size=32, max_size=32)


def codes(result: Pointer) -> list[str]:
    """The reason codes of a pointer, none when it is valid."""
    assert result.valid == (not result.reasons) == (result.id is not None or result.body is not None)
    return [reason.code for reason in result.reasons]


@given(domains, st.none() | digests, st.booleans(), st.booleans(), st.binary(max_size=20))
def test_what_is_built_is_read_back(
    domain: str, digest: bytes | None, hexadecimal: bool, false: bool, more: bytes
) -> None:
    form = "none" if digest is None else "hex64" if hexadecimal else "raw32"
    script = build(domain, digest, hexadecimal=hexadecimal, false=false)
    expected = Pointer(domain, domain, digest, None, form)
    assert read(script) == expected
    assert read(script + push(b"|") + more) == expected


@given(domains, digests, st.integers(20, 80))
def test_a_split_pointer_is_read_back_from_among_other_outputs(domain: str, digest: bytes, size: int) -> None:
    parts = build_split(domain, digest, size)
    scripts = [p2pkh(bytes(20)), *parts, build("other.example")]
    assert read_split(scripts) == (1, Pointer(domain, domain, digest, None, "split"))
    assert [read(part) for part in parts] == [None] * len(parts)


@given(st.binary(max_size=200), st.lists(st.binary(max_size=90), max_size=4))
def test_any_bytes_give_a_pointer_or_none(raw: bytes, more: list[bytes]) -> None:
    start = b"\x6a\x03a2b"
    for script in (raw, start + raw, b"\0" + start + raw, start + pushes(*more)):
        parsed = read(script)
        assert parsed is None or codes(parsed) == [reason.code for reason in parsed.reasons]
    assert read_split([start + raw, start + push(b"1/2") + raw, *more]) is not None
    codes(read_evm_log(raw))
    solana = read_solana_account(b"a2b\0" + raw)
    assert solana is not None
    codes(solana)


@given(st.text(max_size=60), st.text(max_size=70))
def test_any_map_gives_a_pointer_or_none(uri: str, digest: str) -> None:
    for form in (uri, f"https://{uri}", f"https://a.example/{uri}", f"ipfs://{uri}"):
        result = read_map({"type": "a2b", "uri": form, "hash": digest})
        assert result is not None
        codes(result)


@pytest.mark.parametrize(
    ("items", "ending", "expected"),
    [
        ([b"localhost", DIGEST], b"", ["pointer-domain"]),
        ([b"short.example", DIGEST[:31]], b"", ["pointer-hash"]),
        ([b"long.example", DIGEST.hex().encode() + b"0"], b"", ["pointer-hash"]),
        ([b"hex.example", b"g" * 64], b"", ["pointer-hash"]),
        ([b"empty.example", b""], b"", ["pointer-hash"]),
        ([b"more.example", DIGEST, b"x"], b"", ["pointer-extra"]),
        ([b"more.example", DIGEST], b"\x61", ["pointer-extra"]),
        ([b"cut.example"], b"\x20" + DIGEST[:20], ["pointer-hash"]),
        ([b"cut.example", DIGEST], b"\x20" + DIGEST[:20], []),
        ([], b"", ["pointer-domain"]),
        ([b"\xff.example"], b"", ["pointer-domain"]),
        ([b"x" * 3000 + b".example"], b"", ["pointer-domain"]),
        ([b"1.2.3.4", b"x"], b"", ["pointer-domain", "pointer-hash"]),
    ],
)
def test_what_breaks_the_form_is_recorded_with_its_reasons(
    items: list[bytes], ending: bytes, expected: list[str]
) -> None:
    parsed = read(b"\0\x6a" + pushes(b"a2b", *items) + ending)
    assert parsed is not None
    assert codes(parsed) == expected


@pytest.mark.parametrize(
    "script",
    [
        b"",
        b"\x6a",
        p2pkh(bytes(20)) + build("a.example"),
        b"\0\0\x6a" + pushes(b"a2b", b"a.example"),
        b"\x51\x6a" + pushes(b"a2b", b"a.example"),
        b"\x6a" + pushes(b"A2B", b"a.example"),
        b"\x6a" + pushes(b"a2b-agent", b"a.example"),
        b"\x6a" + push(b"xa2b a.example"),
        b"\x6a\x05a2b",
        b"\x6a" + pushes(b"a2b", b"1/2", b"part"),
    ],
)
def test_other_scripts_are_no_pointer(script: bytes) -> None:
    assert read(script) is None


def test_hex_may_be_in_any_case_and_the_domain_stays_as_written() -> None:
    parsed = read(b"\x6a" + pushes(b"a2b", b"Upper.EXAMPLE", DIGEST.hex().upper().encode()))
    assert parsed == Pointer("upper.example", "Upper.EXAMPLE", DIGEST, None, "hex64")


# the split form


def part(number: object, count: object, *data: bytes) -> bytes:
    """One output of the split form."""
    return b"\x6a" + pushes(b"a2b", f"{number}/{count}".encode(), *data)


WHOLE = b"split.example " + DIGEST


@pytest.mark.parametrize(
    ("scripts", "detail"),
    [
        ([part(1, 2, WHOLE[:20])], "found 1/2"),
        ([part(2, 2, WHOLE[:20]), part(1, 2, WHOLE[20:])], "found 2/2, 1/2"),
        ([part(1, 2, WHOLE[:20]), part(1, 2, WHOLE[20:])], "found 1/2, 1/2"),
        ([part(1, 2, WHOLE[:20]), part(2, 3, WHOLE[20:])], "found 1/2, 2/3"),
        ([part(1, 1, WHOLE), part(1, 1, WHOLE)], "found 1/1, 1/1"),
        ([part(n, 9, b"x" * 30) for n in range(1, 10)], "9 parts, where 1 to 8 are allowed"),
        ([part(0, 0, WHOLE)], "0 parts, where 1 to 8 are allowed"),
        ([part(1, 2, WHOLE), part(2, 2)], "a part is empty"),
        ([part(1, 2, WHOLE), part(2, 2, b"x", b"y")], "a part is empty"),
        ([part(1, 1, DIGEST)], "too short for a domain and a hash"),
    ],
)
def test_parts_that_make_no_pointer_say_why(scripts: list[bytes], detail: str) -> None:
    result = read_split(scripts)
    assert result is not None
    assert result[1].reasons == (Reason("pointer-split", detail),)
    assert result[1].reasons[0].sentence.endswith(detail)


def test_eight_parts_make_a_pointer_and_the_space_may_be_missing() -> None:
    assert read_split(build_split("split.example", DIGEST, 6)) == (
        0,
        Pointer("split.example", "split.example", DIGEST, None, "split"),
    )
    assert read_split([part(1, 1, b"split.example" + DIGEST)])[1].id == "split.example"  # type: ignore[index]


def test_a_part_may_be_one_separator_byte() -> None:
    digest = DIGEST[:-1] + b"|"
    scripts = [part(1, 2, b"split.example " + digest[:-1]), part(2, 2, b"|")]
    assert read_split(scripts) == (0, Pointer("split.example", "split.example", digest, None, "split"))


def test_joined_parts_that_name_no_domain_are_refused() -> None:
    assert codes(read_split([part(1, 1, b"localhost " + DIGEST)])[1]) == ["pointer-domain"]  # type: ignore[index]


def test_a_transaction_without_parts_has_no_split_pointer() -> None:
    assert read_split([]) is None
    assert read_split([build("a.example"), p2pkh(bytes(20)), b"\x6a" + push(b"1/2")]) is None


def test_what_cannot_be_read_back_is_not_built() -> None:
    for domain, digest, message in (("localhost", None, "not a domain"), ("a.example", b"x", "32 bytes, not 1")):
        with pytest.raises(ValueError, match=message):
            build(domain, digest)


# the MAP form

URI = "https://map.example/.well-known/agent.json"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hash": DIGEST.hex(), "uri": URI}, Pointer("map.example", "map.example", DIGEST, URI, "map")),
        ({"uri": URI}, Pointer("map.example", "map.example", None, URI, "map")),
        (
            {"hash": "0x" + DIGEST.hex(), "uri": URI},
            Pointer(None, "map.example", None, URI, "map", (Reason("pointer-hash"),)),
        ),
        (
            {"hash": DIGEST.hex(), "uri": "http://map.example/"},
            Pointer(None, "", DIGEST, "http://map.example/", "map", (Reason("pointer-uri"),)),
        ),
        (
            {"hash": DIGEST.hex(), "uri": "https://10.0.0.1/x"},
            Pointer(None, "10.0.0.1", DIGEST, "https://10.0.0.1/x", "map", (Reason("pointer-domain"),)),
        ),
        (
            {"type": "a2b-other", "uri": URI},
            Pointer(None, "map.example", None, URI, "map", (Reason("map-type"),)),
        ),
        (
            {"type": "a2b-mcp", "uri": "https://map.example/mcp.json"},
            Pointer(
                "https://map.example/mcp.json",
                "map.example",
                None,
                "https://map.example/mcp.json",
                "map",
                kind=Kind.TOOL,
            ),
        ),
        ({"hash": DIGEST.hex()}, None),
        ({"type": "agent", "app": "bsv-mcp", "uri": URI}, None),
    ],
)
def test_map_records_with_a_uri_are_pointers(fields: dict[str, str], expected: Pointer | None) -> None:
    assert read_map({"app": "a2b-spec", "type": "a2b", **fields}) == expected


# EVM logs


def abi(uri: bytes, digest: bytes, position: int = 64) -> bytes:
    """ABI encoding of (string, bytes32), written out by hand."""
    filled = uri + bytes(-len(uri) % 32)
    return position.to_bytes(32, "big") + digest + bytes(position - 64) + len(uri).to_bytes(32, "big") + filled


def test_the_topic_is_the_keccak_hash_of_the_event() -> None:
    assert keccak.new(digest_bits=256, data=b"A2BPointer(string,bytes32)").digest() == pointer.TOPIC


def test_a_log_points_to_a_uri_and_a_zero_hash_is_none() -> None:
    uri = "https://evm.example/card.json"
    assert read_evm_log(abi(uri.encode(), DIGEST)) == Pointer(uri, "evm.example", DIGEST, uri, "evm")
    assert read_evm_log(abi(uri.encode(), bytes(32), 128)) == Pointer(uri, "evm.example", None, uri, "evm")


def test_a_data_uri_carries_the_card_itself() -> None:
    uri = b"data:application/json;base64," + base64.b64encode(CARD)
    right = read_evm_log(abi(uri, sha256(CARD).digest()))
    assert (right.body, right.id, right.valid) == (CARD, None, True)
    assert read_evm_log(abi(uri, bytes(32))).body == CARD
    wrong = read_evm_log(abi(uri, DIGEST))
    assert [reason.code for reason in wrong.reasons] == ["pointer-mismatch"]
    both = f": the pointer names {DIGEST.hex()}, and the card has the SHA-256 {sha256(CARD).hexdigest()}"
    assert wrong.reasons[0].explanation.endswith(both)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "pointer-encoding"),
        (abi(b"https://a.example", DIGEST)[:95], "pointer-encoding"),
        (b"\xff" * 96, "pointer-encoding"),
        (abi(b"https://a.example", DIGEST, 64)[:64] + b"\xff" * 64, "pointer-encoding"),
        (abi(b"\xff\xfe", DIGEST), "pointer-encoding"),
        (abi(b"http://a.example", DIGEST), "pointer-uri"),
        (abi(b"https://a.example:443/", DIGEST), "pointer-domain"),
        (abi(b"data:text/plain,hello", DIGEST), "pointer-uri"),
        (abi(b"data:application/json;base64,%%%", DIGEST), "data-uri"),
        (abi(b"data:application/json;base64," + b"A" * 1_400_000, DIGEST), "card-size"),
    ],
)
def test_logs_that_hold_no_pointer_say_why(data: bytes, code: str) -> None:
    result = read_evm_log(data)
    assert [reason.code for reason in result.reasons] == [code]
    assert result.reasons[0].sentence


@pytest.mark.parametrize(
    "uri",
    [
        b"DATA:application/JSON; base64,e30=",
        b"data:application/json;charset=utf-8;base64,e3\n0",
        b"data:application/json,{}",
        b"data:application/json,%7b%7D",
    ],
)
def test_a_log_carries_a_card_in_every_form_of_a_data_uri(uri: bytes) -> None:
    assert read_evm_log(abi(uri, sha256(b"{}").digest())).body == b"{}"


# Solana accounts


def test_an_account_holds_a_card_or_points_to_one() -> None:
    uri = "https://sol.example/card.json"
    assert read_solana_account(b"a2b\0" + CARD + bytes(100)) == Pointer(None, "", None, None, "solana", body=CARD)
    record = json.dumps({"uri": uri, "hash": DIGEST.hex()}).encode()
    assert read_solana_account(b"a2b\0" + record) == Pointer(uri, "sol.example", DIGEST, uri, "solana")
    assert read_solana_account(b'a2b\0{"uri":"%b"}' % uri.encode()) == Pointer(uri, "sol.example", None, uri, "solana")


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"uri": 7}, "pointer-uri"),
        ({"uri": "ftp://a.example"}, "pointer-uri"),
        ({"uri": "https://a.example", "hash": "00"}, "pointer-hash"),
        ({"uri": "https://a.example", "hash": 1}, "pointer-hash"),
    ],
)
def test_records_of_an_account_that_point_nowhere_say_why(record: dict[str, object], code: str) -> None:
    result = read_solana_account(b"a2b\0" + json.dumps(record).encode())
    assert result is not None
    assert codes(result) == [code]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 5000,
        b"9" * 5000,
        b'{"uri":"x","name":"y"}',
        b"[]",
        b"\xff",
        b'{"uri":"x"' + b" " * 7000 + b"}",
    ],
)
def test_everything_else_in_an_account_is_for_the_card_reader_to_judge(body: bytes) -> None:
    result = read_solana_account(b"a2b\0" + body)
    assert result is not None
    assert result.body == body


def test_an_account_of_another_program_is_none() -> None:
    assert read_solana_account(b"a2b{}") is None
    assert read_solana_account(b"") is None


# names (law 10)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("agents.example", "agents.example"),
        ("AGENTS.Example", "agents.example"),
        ("例え.example", "xn--r8jz45g.example"),
        ("xn--r8jz45g.example", "xn--r8jz45g.example"),
        ("XN--R8JZ45G.example", "xn--r8jz45g.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("full\uff0ewidth\u3002example", "full.width.example"),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("a1.b-c.museum", "a1.b-c.museum"),
    ],
)
def test_domains_are_named_by_their_lower_case_a_labels(written: str, name: str) -> None:
    assert a_label(written) == name
    assert a_label(name) == name


@pytest.mark.parametrize(
    "written",
    [
        "",
        ".",
        "localhost",
        "example",
        "agents.example.",
        "agents.example。",
        ".agents.example",
        "a..example",
        "agents.example:443",
        "agents.example/card",
        "user@agents.example",
        "exa mple",
        "exa mple.example",
        "-a.example",
        "a-.example",
        "ab--cd.example",
        "under_score.example",
        "127.0.0.1",
        "127.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "1.2.3.0x7F",
        "1.2.3.0x",
        "agents.1",
        "１２７。0。0。1",
        "2130706433",
        "[::1]",
        "::1",
        "fe80::1%eth0",
        "xn--a.example",
        "xn--.example",
        "a.example\0",
        "a.example\n",
        "a.exa\u202emple",
        "\ud800.example",
        "a" * 64 + ".example",
        "a." * 130 + "example",
        "♥.example",
        "*.example",
        "%61.example",
    ],
)
def test_what_is_no_public_domain_name_is_refused(written: str) -> None:
    assert a_label(written) is None


@given(st.text(max_size=300))
def test_any_text_has_a_name_that_idna_agrees_with_or_none(text: str) -> None:
    for written in (text, f"{text}.example"):
        name = a_label(written)
        if name is not None:
            assert idna.encode(idna.decode(name)).decode() == name
            assert name == name.lower()
            assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-.")
            assert "." in name.strip(".")


CID = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"
CID_0 = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG"


@pytest.mark.parametrize(
    ("uri", "name", "host"),
    [
        (URI, "map.example", "map.example"),
        ("https://MAP.example/.well-known/agent-card.json", "map.example", "map.example"),
        (URI + "#part", "map.example", "map.example"),
        (URI + "?v=1", URI + "?v=1", "map.example"),
        (URI + "/", URI + "/", "map.example"),
        ("HTTPS://Map.Example/Card%20A.json#x", "https://map.example/Card%20A.json", "map.example"),
        ("https://map.example", "https://map.example/", "map.example"),
        ("https://map.example?a=b", "https://map.example?a=b", "map.example"),
        ("https://bücher.example/a", "https://xn--bcher-kva.example/a", "xn--bcher-kva.example"),
        (f"ipfs://{CID}", f"ipfs://{CID}", ""),
        (f"IPFS://{CID_0}/agent.json", f"ipfs://{CID_0}/agent.json", ""),
    ],
)
def test_uris_are_named_by_law_10(uri: str, name: str, host: str) -> None:
    assert locate(uri) == Locator(name, host)


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("", "pointer-uri"),
        ("map.example", "pointer-uri"),
        ("http://map.example/", "pointer-uri"),
        ("javascript://map.example/", "pointer-uri"),
        ("https:/map.example/", "pointer-uri"),
        ("https://", "pointer-domain"),
        ("https:///path", "pointer-domain"),
        ("https://map.example:443/", "pointer-domain"),
        ("https://user:pw@map.example/", "pointer-domain"),
        ("https://user@map.example", "pointer-domain"),
        ("https://169.254.169.254/latest", "pointer-domain"),
        ("https://[::1]/", "pointer-domain"),
        ("https://localhost/", "pointer-domain"),
        ("https://map.example\\@evil.example/", "pointer-domain"),
        ("https://map.example./", "pointer-domain"),
        ("https://map.example/a b", "pointer-uri"),
        ("https://map.example/\r\nHost: x", "pointer-uri"),
        ("https://map.example/ü", "pointer-uri"),
        ("https://map.example/%zz", "pointer-uri"),
        ("https://map.example/" + "a" * 2048, "pointer-uri"),
        ("ipfs://", "pointer-uri"),
        ("ipfs://notacid", "pointer-uri"),
        (f"ipfs://{CID}/a b", "pointer-uri"),
        (f"ipfs:{CID}", "pointer-uri"),
    ],
)
def test_uris_that_name_nothing_say_why(uri: str, code: str) -> None:
    assert locate(uri) == Reason(code)


def test_the_host_is_named_as_written_also_when_it_is_refused() -> None:
    assert host_of("https://[::1]:8/x?y") == "[::1]:8"
    assert host_of("https://Map.Example?y") == "Map.Example"
    assert host_of("ipfs://x") == host_of("nothing") == ""
