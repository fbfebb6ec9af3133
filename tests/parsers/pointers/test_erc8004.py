"""Logs of ERC-8004's identity registry, decoded; and where an agentURI leads."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.cards import data_uri, is_entry
from parsers.cards.strict_json import MAX_BYTES
from parsers.errors import ParseError
from parsers.pointers import erc8004
from parsers.pointers.abi import address, dynamic, word
from parsers.pointers.erc8004 import (
    InlineFile,
    MetadataSet,
    Registered,
    Transfer,
    UriUpdated,
    entry_id,
    read_log,
    read_uri,
)
from parsers.pointers.locator import Locator
from parsers.reasons import Reason
from tests import registry_kit as kit

ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
BODY = b'{"name": "Weather Agent"}'
BASE64 = base64.b64encode(BODY)
CID = "bafkreidky4zbb4jya5cysj5iljpjjqa3xehrz3otwz3i2itqe4bw5rx3ji"


def code(result: object) -> str:
    assert isinstance(result, Reason), result
    assert result.sentence
    return result.code


def test_topics_are_the_keccak_hashes_of_the_events() -> None:
    logs = (
        kit.registered(1, "", ALICE), kit.uri_updated(1, "", ALICE), kit.metadata_set(1, "k", b""),
        kit.transfer(1, ALICE, BOB),
    )  # fmt: skip
    assert tuple(log.topics[0] for log in logs) == erc8004.TOPICS


def mainnet(shared: Path) -> list[dict[str, Any]]:
    body = json.loads((shared / "data" / "erc8004-mainnet-event-logs.json").read_text())
    logs: list[dict[str, Any]] = body["registeredLogs"] + body["uriUpdatedLogs"]
    assert len(logs) == 158
    return logs


def decoded(log: dict[str, Any]) -> erc8004.Record | None:
    return read_log([bytes.fromhex(topic[2:]) for topic in log["topics"]], bytes.fromhex(log["data"][2:]))


def test_every_field_of_158_real_logs_encodes_to_the_very_log_again(shared: Path) -> None:
    kinds = {Registered: 0, UriUpdated: 0}
    for log in mainnet(shared):
        result = decoded(log)
        assert isinstance(result, Registered | UriUpdated)
        kinds[type(result)] += 1
        if isinstance(result, Registered):
            again = kit.registered(result.agent, result.uri, result.owner)
        else:
            again = kit.uri_updated(result.agent, result.uri, result.by)
        assert [f"0x{topic.hex()}" for topic in again.topics] == log["topics"]
        assert f"0x{again.data.hex()}" == log["data"]
    assert kinds == {Registered: 109, UriUpdated: 49}


def test_real_agent_uris_lead_to_files_to_places_or_nowhere_for_a_reason(shared: Path) -> None:
    answers: dict[str, int] = {}
    for log in mainnet(shared):
        record = decoded(log)
        assert isinstance(record, Registered | UriUpdated)
        result = read_uri(record.uri)
        if isinstance(result, InlineFile):
            name = "carried"
            assert json.loads(result.body), "one that is not JSON would be the card's fault"
        else:
            name = f"{result.id.partition(':')[0]}:" if isinstance(result, Locator) and ":" in result.id else "domain"
            name = result.code if isinstance(result, Reason) else name
        answers[name] = answers.get(name, 0) + 1
    # three bare JSON texts, fifteen compressed ones and a bare CID among them
    assert answers == {
        "carried": 98, "https:": 46, "ipfs:": 6, "domain": 2, "entry-no-uri": 3, "pointer-uri": 3,
    }  # fmt: skip


@given(
    st.integers(0, 2**256 - 1), st.binary(max_size=200), st.binary(min_size=20, max_size=20), st.binary(max_size=100)
)
def test_logs_of_the_contract_are_read_as_they_were_emitted(agent: int, text: bytes, who: bytes, value: bytes) -> None:
    owner = f"0x{who.hex()}"
    assert read_log(*kit.registered(agent, text, owner)) == Registered(agent, text, owner)
    assert read_log(*kit.uri_updated(agent, text, owner)) == UriUpdated(agent, text, owner)
    log = kit.metadata_set(agent, text, value)
    assert read_log(*log) == MetadataSet(agent, kit.keccak256(text), text, value)
    to = None if owner == kit.NOBODY else owner
    assert read_log(*kit.transfer(agent, kit.NOBODY, owner)) == Transfer(agent, None, to)


@given(st.lists(st.sampled_from(erc8004.TOPICS) | st.binary(max_size=33), max_size=5), st.binary(max_size=300))
def test_any_log_gives_a_record_none_or_a_parse_error(topics: list[bytes], data: bytes) -> None:
    try:
        result = read_log(topics, data)
    except ParseError:
        assert topics[0] in erc8004.TOPICS
    else:
        assert (result is None) == (not topics or topics[0] not in erc8004.TOPICS)


@given(st.data())
def test_a_log_with_any_byte_changed_or_cut_off_never_fails_otherwise(data: st.DataObject) -> None:
    topics, raw = kit.metadata_set(7, "agentWallet", b"\xaa" * 20)
    drawn, byte = data.draw(st.integers(0, len(raw) - 1)), data.draw(st.integers(0, 255))
    for hurt in (raw[:drawn], raw[:drawn] + bytes((byte,)) + raw[drawn + 1 :]):
        try:
            result = read_log(topics, hurt)
        except ParseError:
            continue
        assert isinstance(result, MetadataSet)
        assert len(result.key) + len(result.value) <= len(raw)


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        (kit.registered(1, "x", ALICE).topics[:2], kit.registered(1, "x", ALICE).data),
        ((*kit.registered(1, "x", ALICE).topics[:2], b"\xff" * 32), kit.registered(1, "x", ALICE).data),
        (kit.registered(1, "x", ALICE).topics, b""),
        (kit.registered(1, "x", ALICE).topics, b"\xff" * 64),
        (kit.registered(1, "x", ALICE).topics, kit.registered(1, "x" * 40, ALICE).data[:-33]),
        (kit.registered(1, "x", ALICE).topics, kit.strings(b"x" * (data_uri.MAX_URI + 1))),
        (kit.metadata_set(1, "k", b"v").topics, kit.strings(b"k" * (erc8004.MAX_KEY + 1), b"v")),
        (kit.transfer(1, ALICE, BOB).topics[:3], b""),
    ],
)
def test_a_log_that_is_not_what_its_topic_says_is_a_parse_error(topics: tuple[bytes, ...], data: bytes) -> None:
    with pytest.raises(ParseError):
        read_log(topics, data)


def test_words_and_addresses_are_checked() -> None:
    assert word(bytes(32) + b"\1" * 32, 1) == b"\1" * 32
    assert address(kit.address(ALICE)) == ALICE
    for wrong in (lambda: word(bytes(63), 1), lambda: address(b"\1" * 32), lambda: dynamic(kit.strings(b"abc"), 0, 2)):
        with pytest.raises(ParseError):
            wrong()


# The names of entries


def test_an_entry_is_named_by_chain_registry_and_number() -> None:
    name = entry_id("eip155:1", "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432", 22)
    assert name == "eip155:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/22"
    assert is_entry(name)
    assert is_entry(entry_id("eip155:137", ALICE, 2**256 - 1))
    log = f"eip155:1:{ALICE}/0x{'0' * 64}:7"
    for other in ("", log, "weather.example", name + "\n", name.upper(), f"eip155:1:{ALICE}/022", f"{'00' * 32}_0"):
        assert not is_entry(other), other


# Where an agentURI leads


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (b"data:application/json;base64," + BASE64, InlineFile(BODY)),
        (b"DATA:;BASE64," + BASE64.rstrip(b"="), InlineFile(BODY)),
        (b" data:application/json;base64," + BASE64 + b"\n", InlineFile(BODY)),
        (b"data:application/json;base64," + BASE64.replace(b"=", b"%3D"), InlineFile(BODY)),
        (b"data:application/json;base64," + base64.encodebytes(BODY * 9).replace(b"\n", b"\r\n"), InlineFile(BODY * 9)),
        (b"data:application/json; base64 , " + BASE64[:9] + b" \t\f%0A" + BASE64[9:], InlineFile(BODY)),
        (b"data:application/json;base64," + base64.urlsafe_b64encode(b"\xfb\xff\xfe"), InlineFile(b"\xfb\xff\xfe")),
        (b"data:application/json," + BODY.replace(b" ", b"%20"), InlineFile(BODY)),
        (
            b"data:application/json;enc=gzip;level=6;base64," + base64.b64encode(gzip.compress(BODY, mtime=0)),
            InlineFile(BODY),
        ),
        (BODY, InlineFile(BODY)),
        (b"https://weather.example/agent.json#x", Locator("https://weather.example/agent.json", "weather.example")),
        (b"https://weather.example/.well-known/agent.json", Locator("weather.example", "weather.example")),
        (f"ipfs://{CID}".encode(), Locator(f"ipfs://{CID}", "")),
        (CID.encode(), Locator(f"ipfs://{CID}", "")),
        (f"ipfs://ipfs/{CID}/agent.json".encode(), Locator(f"ipfs://{CID}/agent.json", "")),
    ],
)
def test_an_agent_uri_carries_a_file_or_names_its_url(uri: bytes, expected: object) -> None:
    assert read_uri(uri) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (b"", "entry-no-uri"),
        (b" \n", "entry-no-uri"),
        (b"tinybanana", "pointer-uri"),
        (b"http://weather.example/", "pointer-uri"),
        (b"https://localhost/", "pointer-domain"),
        (b"https://127.0.0.1/", "pointer-domain"),
        (b"ipfs://0x0665b232bE50fa99AfAa430F560bE9788E440fF9", "pointer-uri"),
        (b"\xff\xfe", "pointer-uri"),
        (b"data:application/json;base64", "data-uri"),
        (b"data:" + b"x" * 300 + b",e30=", "data-uri"),
        (b"data:application/json;base64,%%%", "data-uri"),
        (b"data:application/json;base64,e30=e30=", "data-uri"),
        (b"data:application/json;base64,e", "data-uri"),
        (b"data:application/json;base64,e\x0030=", "data-uri"),
        (b"ipfs://ipfs/ipfs/" + CID.encode(), "pointer-uri"),
        (b"ipfs://ipfs/", "pointer-uri"),
        (b"data:application/json;base64,e30=" + b"A" * data_uri.MAX_URI, "data-uri"),
        (b"data:;enc=gzip;base64," + BASE64, "data-uri"),
        (b"data:;enc=br;base64," + BASE64, "data-uri"),
        (b"data:;enc=gzip;base64," + base64.b64encode(gzip.compress(BODY, mtime=0)[:-4]), "data-uri"),
        (b"data:;enc=gzip;base64," + base64.b64encode(gzip.compress(BODY, mtime=0) + b"more"), "data-uri"),
        (b"data:;enc=gzip;base64," + base64.b64encode(gzip.compress(b" " * (MAX_BYTES + 1), mtime=0)), "card-size"),
        (b"data:," + b"x" * (MAX_BYTES + 1), "card-size"),
    ],
)
def test_an_agent_uri_that_leads_nowhere_says_why(uri: bytes, expected: str) -> None:
    assert code(read_uri(uri)) == expected


def test_a_bomb_of_a_gigabyte_is_refused_after_one_megabyte() -> None:
    packed = gzip.compress(gzip.compress(bytes(64 << 20), mtime=0), mtime=0)
    inner = base64.b64encode(gzip.decompress(packed))
    assert code(read_uri(b"data:;enc=gzip;base64," + inner)) == "card-size"


@given(st.binary(max_size=120))
def test_any_agent_uri_leads_somewhere_or_says_why(raw: bytes) -> None:
    forms = (raw, b"data:" + raw, b"data:;base64," + raw, b"data:;enc=gzip," + raw, b"https://" + raw, b"ipfs://" + raw)
    for uri in forms:
        result = read_uri(uri)
        if isinstance(result, Reason):
            assert code(result)


@given(st.binary(max_size=500))
def test_what_a_data_uri_carries_is_exactly_what_was_put_in(body: bytes) -> None:
    packed = base64.b64encode(gzip.compress(body))
    assert data_uri.read(b"data:application/json;enc=gzip;base64," + packed) == body
    assert data_uri.read(b"data:application/json;base64," + base64.b64encode(body)) == body
    assert data_uri.read(b"data:," + b"".join(b"%%%02X" % byte for byte in body)) == body


LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def forgiving(text: bytes) -> bytes | None:
    """WHATWG Infra, forgiving-base64 decode, letter by letter, with the letters of base64url; None for a failure."""
    letters = [letter for letter in text if letter not in b" \t\n\f\r"]
    if len(letters) % 4 == 0:
        for _ in range(2):
            if letters[-1:] == list(b"="):
                letters.pop()
    if len(letters) % 4 == 1 or any(letter not in LETTERS + b"+/-_" for letter in letters):
        return None
    bits = "".join(f"{62 + (c in b'/_') if c in b'+/-_' else LETTERS.index(c):06b}" for c in letters)
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits) - 7, 8))


@given(st.lists(st.sampled_from(LETTERS + b"+/-_=    \n\t\r"), max_size=12).map(bytes))
def test_base64_is_read_as_browsers_read_it(text: bytes) -> None:
    expected = forgiving(text)
    result = data_uri.read(b"data:application/json;base64," + text)
    if expected is not None:
        assert result == expected
    elif isinstance(result, bytes):  # they refuse padding of one letter where two are due: it is harmless
        assert result == forgiving(text.replace(b"=", b""))


@given(st.binary(max_size=120), st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]), st.data())
def test_base64_in_lines_of_any_length_is_what_was_put_in(body: bytes, encode: Any, data: st.DataObject) -> None:
    text = encode(body)
    text = text.rstrip(b"=") if data.draw(st.booleans()) else text
    length = data.draw(st.integers(1, 80))
    lines = data.draw(st.sampled_from([b"\n", b"\r\n", b"%0A", b" "])).join(
        text[start : start + length] for start in range(0, len(text), length)
    )
    assert data_uri.read(b"data:application/json;base64," + lines) == body
