"""Forty-three real mainnet transactions: what is in them, and what only looks so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers.bitcoin import address
from parsers.bitcoin.tx import Transaction
from parsers.cards import Kind
from parsers.inscriptions import envelope, map_protocol, output_record, sigma
from parsers.inscriptions.map_protocol import tapes
from tests.parsers.samples import real_transactions

Real = dict[str, Transaction]


@pytest.fixture(scope="module")
def real(shared: Path) -> Real:
    return real_transactions(shared)


@pytest.fixture(scope="module")
def vectors(shared: Path) -> list[Any]:
    lines = (shared / "vectors" / "bsv" / "real_transactions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_one_real_registration_is_read_in_full(real: Real, shared: Path) -> None:
    tx = real["b08538c9"]
    parsed = output_record.read(tx, 0)
    assert parsed.inscription is not None
    assert (parsed.satoshis, parsed.inscription.content_type, len(parsed.inscription.body)) == (
        1,
        "application/json",
        11_497,
    )
    body = json.loads((shared / "vectors" / "bsv" / "real_a2b_mcp_b08538c9.json").read_text())
    assert json.loads(parsed.inscription.body) == body
    assert parsed.map == map_protocol.Map({"app": "bsv-mcp", "type": "a2b-mcp"}, ("SET",))
    assert (parsed.kind, parsed.near, parsed.pointer) == (Kind.TOOL, (), None)
    assert address.owner(parsed.script) == "1Cr5gSHf5tzFBvGuSa21VRoV9pRuRBmum9"
    assert sigma.signer(tx, 0) == "1FdKLZsksDDRukRtUSwv8b2TVXEngdDHya"


def test_the_valid_signatures_name_their_signers_and_no_other_output_claims_one(real: Real) -> None:
    signers = {
        name: sigma.signer(tx, vout)
        for name, tx in real.items()
        for vout, output in enumerate(tx.outputs)
        if sigma.read(output.script)
    }
    assert signers == {
        "34adf92c": "12KP5KzkBwtsc1UrTrsBCJzgqKn8UqaYQq",
        "b08538c9": "1FdKLZsksDDRukRtUSwv8b2TVXEngdDHya",
    }


def test_the_number_of_valid_envelopes_is_the_one_counted_by_others(real: Real, vectors: list[Any]) -> None:
    counted = 0
    for vector in vectors:
        note = vector["note"]
        if "strictly valid " not in note:
            continue
        want = int(note.split("strictly valid ")[1].split(")")[0])
        tx = real[vector["txid"][:8]]
        assert sum(envelope.read(output.script) is not None for output in tx.outputs) == want, vector["txid"]
        counted += 1
    assert counted == len(real) == 43


@pytest.mark.parametrize("name", ["935e2a47", "2320c9d7", "a73d4d9b"])
def test_contracts_that_carry_the_bytes_of_an_envelope_in_a_push_have_none(real: Real, name: str) -> None:
    for vout in (0, 1):
        script = real[name].outputs[vout].script
        assert b"\x00\x63\x03ord" in script
        assert envelope.read(script) is None
        assert [miss.code for miss in envelope.near_misses(script)] == ["envelope-in-push"]
        assert not output_record.read(real[name], vout).near_json
    name_record = output_record.read(real[name], 2).inscription
    assert name_record is not None
    assert name_record.content_type == "application/op-ns"


def test_data_before_the_type_is_no_envelope_and_a_number_before_the_prefix_is_no_map(real: Real) -> None:
    parsed = output_record.read(real["3b293fc1"], 0)
    assert (parsed.inscription, parsed.map, parsed.near, parsed.near_json) == (None, None, ("envelope-open",), False)


def test_a_body_by_pushdata4_and_map_inside_the_envelope_are_read(real: Real) -> None:
    parsed = output_record.read(real["489d815f"], 0)
    assert parsed.inscription is not None
    assert (parsed.inscription.content_type, len(parsed.inscription.body)) == ("image/png", 437_050)
    assert parsed.inscription.body.startswith(b"\x89PNG\r\n")
    assert parsed.map is not None
    assert (parsed.map.fields["app"], parsed.map.fields["name"]) == ("Bubblemint", "Royal Tardinians")
    assert address.owner(parsed.script) is None  # a contract, and no address


def test_a_record_and_its_map_only_update_are_distinguished(real: Real) -> None:
    first, update = output_record.read(real["668fd698"], 0), output_record.read(real["d8fad9be"], 0)
    assert first.inscription is not None
    assert (first.inscription.body, first.inscription.content_type) == (b"video-test", "text/plain")
    assert first.map == map_protocol.Map({"app": "react-onchain", "type": "version"}, ("SET",))
    assert update.inscription is None
    assert update.map is not None
    assert list(update.map.fields) == ["app", "type", "version.1.0.0"]
    assert address.owner(first.script) == address.owner(update.script) == "13Tq1iWryT1FxLRc35a7GgSY7VYxUngbdM"


def test_the_opcode_0x7c_is_no_separator(real: Real) -> None:
    (tape,) = tapes(real["208ec9c5"].outputs[0].script)
    assert (tape.pushes[0], len(tape.pushes)) == (b"19HxigV4QyBv3tHpQVcUEQyq1pzZVdoAut", 4)


def test_only_set_is_taken_from_map(real: Real) -> None:
    assert output_record.read(real["b947f1d8"], 0).map == map_protocol.Map({}, ("DELETE",))
    assert output_record.read(real["1817ecc5"], 3).map.fields["app"] == "tonicpow"  # type: ignore[union-attr]


def test_tapes_of_other_protocols_are_split_alike(real: Real) -> None:
    file, first, second = tapes(real["d4738845"].outputs[0].script)
    assert file.pushes[1:3] == (b"Hello world!", b"text/plain")
    assert [tape.pushes[2] for tape in (first, second)] == [
        b"1EXhSbGFiEAZCE5eeBvUxT6cBVHhrpPWXz",
        b"19nknLhRnGKRR3hobeFuuqmHUMiNTKZHsR",
    ]
    picture = tapes(real["3de7702f"].outputs[0].script)[1]
    assert (len(picture.pushes[1]), picture.pushes[2]) == (25_301, b"image/png")
    identity, signature = tapes(real["744a55a8"].outputs[0].script)
    assert identity.pushes[0] == b"1BAPSuaPnfGnSBM3GLV9yhxUdYe4vGbdMT"
    assert signature.pushes[2] == b"134a6TXxzgQ9Az3w8BcvgdZyA5UqRL89da"


def test_locks_that_want_a_second_signature_have_no_owner(real: Real) -> None:
    script = real["f7ca34a9"].outputs[0].script
    assert envelope.read(script) is not None
    assert address.owner(script) is None
    assert address.owner(real["f7ca34a9"].outputs[1].script) is not None


def test_nothing_but_the_registration_is_ours(real: Real) -> None:
    ours = []
    for name, tx in real.items():
        for vout in range(len(tx.outputs)):
            parsed = output_record.read(tx, vout)
            assert parsed.pointer is None
            if parsed.kind or parsed.near_json or (parsed.map and output_record.is_for_registry(parsed.map.fields)):
                ours.append((name, vout))
    assert ours == [("b08538c9", 0)]


def test_bodies_are_the_exact_bytes(real: Real) -> None:
    parsed = envelope.read(real["34adf92c"].outputs[0].script)
    assert parsed is not None
    assert (parsed.content_type, parsed.body[:4], parsed.body[8:12]) == ("image/webp", b"RIFF", b"WEBP")
    assert int.from_bytes(parsed.body[4:8], "little") + 8 == len(parsed.body)
