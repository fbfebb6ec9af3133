"""Outputs as records, against the sample chain's oracle and in the cases of the laws."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import address
from parsers.bitcoin.script import p2pkh, push
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput
from parsers.cards import Kind
from parsers.inscriptions import envelope, output_record, sigma, tapscript
from parsers.inscriptions.map_protocol import PREFIX, Map, build, build_field
from parsers.inscriptions.output_record import OutputRecord, family, is_for_registry, kind_of
from parsers.pointers import pointer
from parsers.pointers.pointer import Pointer
from parsers.reasons import SENTENCES
from tests.parsers.samples import oracle, sample_transactions
from tests.parsers.writers import build_output, build_split, build_witness

LOCK = p2pkh(bytes(20))
CARD = b'{"name":"Echo"}'
AGENT = {"app": "echo", "type": "a2b-agent"}


@pytest.fixture(scope="module")
def chain(sample: Path) -> dict[str, Transaction]:
    return sample_transactions(sample)


@pytest.fixture(scope="module")
def expected(sample: Path) -> Any:
    return oracle(sample)


def position_of(outpoint: str) -> tuple[str, int]:
    """Txid and output number of `<txid>_<vout>`."""
    txid, vout = outpoint.split("_")
    return txid, int(vout)


def transaction(*scripts: bytes, witness: tuple[bytes, ...] = ()) -> Transaction:
    """A transaction of one input whose outputs of one satoshi have these scripts."""
    spent = TxInput(Outpoint(bytes(32), 0), b"", 0, witness)
    return Transaction(bytes(32), 1, (spent,), tuple(TxOutput(1, script) for script in scripts), 0, 0)


def test_every_pointer_of_the_sample_chain_is_read_as_its_oracle_says(chain: Any, expected: Any) -> None:
    assert len(expected["pointers"]) == 13
    for want in expected["pointers"]:
        txid, vout = position_of(want["outpoint"])
        result = output_record.read(chain[txid], vout).pointer
        assert result is not None
        messages = {
            "domain": result.domain,
            "hash": result.digest.hex() if result.digest else None,
            "form": result.form,
            "uri": result.uri,
            "valid": result.valid,
            "reason": result.reasons[0].sentence if result.reasons else "",
        }
        assert messages == {key: want[key] for key in messages}
        assert result.id == (want["domain"] if want["valid"] else None)


def revisions(expected: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every revision of the oracle that left an output, with its registration."""
    return [
        (registration, revision)
        for registration in expected["registrations"]
        for revision in registration["revisions"]
        if revision["outpoint"] and revision["kind"] != "burned"
    ]


def test_every_revision_of_the_sample_chain_has_the_owner_signer_and_body_of_its_oracle(
    chain: Any, expected: Any
) -> None:
    seen = revisions(expected)
    assert len(seen) > 60
    for _, revision in seen:
        txid, vout = position_of(revision["outpoint"])
        parsed = output_record.read(chain[txid], vout)
        body = parsed.inscription.body if parsed.inscription else None
        if revision["cardSha256"]:
            assert sha256(body or b"").hexdigest() == revision["cardSha256"]
        assert (parsed.inscription is None) == (revision["kind"] in ("moved", "map_only"))
        if revision["kind"] != "foreign_content":  # which may have MAP or not
            assert (parsed.map is None) == (revision["kind"] == "moved")
        assert address.owner(parsed.script, "bsv", "regtest") == revision["owner"]
        assert sigma.signer(chain[txid], vout) == revision["signer"]


def test_every_first_record_of_the_sample_chain_has_the_kind_of_its_oracle(chain: Any, expected: Any) -> None:
    for registration, revision in revisions(expected):
        if revision["kind"] == "inscribed":
            parsed = output_record.read(chain[revision["txid"]], position_of(revision["outpoint"])[1])
            assert parsed.kind == registration["type"]
            assert parsed.inscription is not None
            assert envelope.is_json(parsed.inscription.content_type)
            assert parsed.satoshis == 1


def test_near_misses_of_the_sample_chain_have_the_reasons_of_its_oracle(chain: Any, expected: Any) -> None:
    answers = {}
    for want in expected["rejected"]:
        txid, vout = position_of(want["outpoint"])
        parsed = output_record.read(chain[txid], vout)
        for code in parsed.near:
            answers[SENTENCES[code]] = want["reason"]
            assert parsed.near_json
    assert answers == {
        sentence: sentence
        for sentence in (
            "the envelope is only bytes inside a push",
            "the body push runs past the script",
            "the envelope is not closed",
        )
    }


def test_a_command_other_than_set_is_named_by_the_map(chain: Any, expected: Any) -> None:
    (want,) = (want for want in expected["rejected"] if want["reason"] == SENTENCES["map-command"])
    txid, vout = position_of(want["outpoint"])
    assert output_record.read(chain[txid], vout).map == Map({}, ("GET",))


def test_an_output_with_an_envelope_is_no_map_pointer() -> None:
    fields = {**AGENT, "uri": "https://a.example/card.json"}
    script = build_output(LOCK, envelope.build("application/json", CARD), build(fields))
    parsed = output_record.read(transaction(script), 0)
    assert (parsed.pointer, parsed.kind) == (None, Kind.AGENT)
    alone = output_record.read(transaction(LOCK + build(fields)), 0).pointer
    assert alone is not None
    assert alone.form == "map"


def test_plain_pointers_are_read_and_parts_of_split_ones_are_left_to_the_transaction() -> None:
    assert output_record.read(transaction(pointer.build("a.example")), 0).pointer == Pointer(
        "a.example", "a.example", None, None, "none"
    )
    parts = build_split("a.example", bytes(range(32)))
    assert output_record.read(transaction(*parts), 0).pointer is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_script_and_witness_give_a_record(script: bytes, inside: bytes) -> None:
    for prefix in (b"", b"\x00\x63\x03ord", b"\x6a" + push(PREFIX), b"\x6a\x03a2b"):
        parsed = output_record.read(transaction(prefix + script), 0)
        assert isinstance(parsed, OutputRecord)
        assert set(parsed.near) <= SENTENCES.keys()
        for revealed in tapscript.read((b"\x00\x63\x03ord" + inside, bytes(33))):
            record = output_record.read_revealed(revealed, output_record.read_tape(transaction(script)))
            assert set(record.near) <= SENTENCES.keys()


# the inscriptions of taproot inputs (law 3a)

INSIDE = (PREFIX, build_field({"app": "inside", "type": "a2b-agent"}))


def stack(*fields: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    """A witness whose tapscript inscribes the card."""
    return build_witness("application/json", CARD, fields, chunk=4), b"\xc0" + bytes(32)


def test_map_of_a_tapscript_is_its_field_or_in_the_first_op_return_output() -> None:
    data = b"\0" + build({"app": "outside", "type": "a2b-agent"}), build({"app": "second"})

    def record(witness: tuple[bytes, ...], *outputs: bytes) -> OutputRecord:
        (revealed,) = tapscript.read(witness)
        return output_record.read_revealed(revealed, output_record.read_tape(transaction(LOCK, *outputs)))

    outside, inside, neither = record(stack(), *data), record(stack(INSIDE), *data), record(stack())
    assert [result.map.fields["app"] if result.map else None for result in (outside, inside, neither)] == [
        "outside",
        "inside",
        None,
    ]
    assert {result.inscription.body for result in (outside, inside, neither) if result.inscription} == {CARD}


# kinds (laws 1 and 4)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"type": "a2b-agent"}, Kind.AGENT),
        ({"type": "a2b"}, Kind.AGENT),
        ({"type": "a2b-mcp"}, Kind.TOOL),
        ({"type": "agent", "app": "bsv-mcp"}, Kind.AGENT),
        ({"type": "agent", "app": "other"}, None),
        ({"type": "agent"}, None),
        ({"type": "A2B"}, None),
        ({"type": "a2b-other"}, None),
        ({"type": "a2b "}, None),
        ({"app": "bsv-mcp"}, None),
        ({}, None),
    ],
)
def test_a_first_record_is_an_agent_a_tool_or_neither(fields: dict[str, str], kind: Kind | None) -> None:
    assert kind_of(fields) is kind
    assert is_for_registry(fields) == (kind is not None or fields.get("type", "").startswith("a2b"))


def test_later_types_are_compared_by_their_kind_whatever_the_app() -> None:
    assert [family(named) for named in ("a2b", "a2b-agent", "agent", "a2b-mcp", "post", "")] == [
        Kind.AGENT,
        Kind.AGENT,
        Kind.AGENT,
        Kind.TOOL,
        None,
        None,
    ]
