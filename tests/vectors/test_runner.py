"""The runner of vectors: what agrees, what does not, and what it prints of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vectors import a2b_payments
from tests.vectors.runner import Vector, disagreement, run


def doubled(vector: Vector) -> dict[str, Any]:
    return {"sum": vector.row["input"] * 2, "odd": False, "parts": [vector.row["input"]]}


KINDS = {("demo", ""): doubled, ("demo", "exact"): lambda vector: vector.line.count(" ")}


def line(**members: Any) -> str:
    return json.dumps({"system": "demo", "name": "n"} | members)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(input=2, expected={"sum": 4}), None),
        (line(input=2, expected={"sum": 4, "odd": False, "parts": [2]}), None),
        (line(input=2, expected={"sum": 5}), "demo n: /sum is 4, expected 5"),
        (line(input=2, expected={"odd": 0}), "demo n: /odd is false, expected 0"),
        (line(input=1, expected={"parts": [True]}), "demo n: /parts is [1], expected [true]"),
        (line(input=2, expected={"rest": None}), "demo n: /rest is absent, expected null"),
        (line(input=2, expected=None), 'demo n: the answer is {"sum": 4, "odd": false, "parts": [2]}, expected null'),
        (line(expected={}), "demo n: raises KeyError: 'input'"),
        (line(kind="other", expected=1), "demo other n: nothing evaluates 'demo other'"),
        (line(input=2), "not an object with a member `expected`"),
        ("[]", "not an object with a member `expected`"),
    ],
)
def test_a_vector_agrees_when_every_expected_member_is_equal(text: str, reason: str | None) -> None:
    assert disagreement(text, KINDS) == reason


def test_a_kind_sees_the_text_of_its_line() -> None:
    text = '{"system": "demo", "kind": "exact", "expected": 5}'
    assert disagreement(text, KINDS) is None


def test_every_disagreement_is_one_line_and_the_last_line_counts(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(f"{line(input=1, expected={'sum': 2})}\n\n")
    bad.write_text("{\n" + line(input=3, expected={"sum": 6}))
    shown: list[str] = []
    assert run([good], KINDS, shown.append) == 0
    assert shown == ["1 of 1 agree"]
    assert run([good, bad], KINDS, shown.append) == 1
    assert [text.split(": ")[:2] for text in shown[1:]] == [[f"{bad}:1", "not JSON"], ["2 of 3 agree"]]


def test_a_file_without_vectors_does_not_agree(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    assert run([tmp_path / "empty.jsonl"], KINDS, lambda _: None) == 1


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("matrix.json", [{"fixture": "f.json", "schemas-strict": {"valid": False}, "schemas-lenient": {"valid": True}}],
         "2 of 2 agree"),
        ("matrix.json", [{"fixture": "f.json", "schemas-strict": {"valid": True}, "schemas-lenient": {"valid": True}}],
         "1 of 2 agree"),
        ("matrix.json", [{"fixture": "absent.json", "schemas-strict": {"valid": True}}], "0 of 2 agree"),
        ("delegation-revocation-v1.json", {"$schema": "http://json-schema.org/draft-07/schema#", "required": ["x"]},
         "0 of 1 agree"),
        ("other-v1.json", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "1 of 1 agree"),
        ("other-v1.json", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "no type"}, "0 of 1 agree"),
        ("unknown.json", {"what": "else"}, "0 of 1 agree"),
    ],
)  # fmt: skip
def test_documents_are_vectors_too(tmp_path: Path, name: str, value: Any, reason: str) -> None:
    fixture = {"mrp_version": "0.1", "msg_id": "message-1", "msg_type": "ERROR", "timestamp": "2026-03-01T00:00:00Z",
               "sender": {"id": "one"}, "payload": {"code": "MRP_X", "message": "m", "retryable": False}}  # fmt: skip
    (tmp_path / "f.json").write_text(json.dumps(fixture))
    (tmp_path / name).write_text(json.dumps(value))
    shown: list[str] = []
    assert run([tmp_path / name], KINDS, shown.append) == (0 if reason[0] == reason[5] else 1)
    assert shown[-1] == reason


def test_a_document_of_no_known_form_says_which_forms_there_are(tmp_path: Path) -> None:
    (tmp_path / "unknown.json").write_text("{}")
    shown: list[str] = []
    assert run([tmp_path / "unknown.json"], KINDS, shown.append) == 1
    assert "a matrix of fixtures" in shown[0]


def test_a_payment_vector_may_leave_out_what_does_not_matter() -> None:
    row: dict[str, Any] = {"config": {"id": "p", "currency": "BSV", "amount": 1}, "expected": {"code": -32030}}
    for members in (row, {"config": None}, {"claim": None}, {"claim": {}}):
        answer = a2b_payments.evaluate(Vector(row | members, json.dumps(row | members)))
        assert answer["code"] == (-32031 if members.get("claim") is not None else -32030)
