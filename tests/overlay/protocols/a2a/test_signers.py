"""Cards signed by the SDKs of A2A are verified; their signatures do not cover prices beside the members of A2A."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.claims.card_forms import canonical_forms
from parsers.claims.card_signature import verify
from tests.conftest import missing
from tests.parsers.claims.signing import jwk, private
from tests.parsers.claims.test_card_signature import PRICED
from tests.waiting import PATIENCE

HERE = Path(__file__).parent
OLD = {
    "name": "Écho", "description": "", "version": "1", "protocolVersion": "0.3.0", "url": "https://a.example/a2a",
    "preferredTransport": "JSONRPC", "capabilities": {"streaming": False}, "defaultInputModes": ["text/plain"],
    "defaultOutputModes": [], "skills": PRICED["skills"], "x-payment-config": PRICED["x-payment-config"],
}  # fmt: skip


def sign(signer: str, card: dict[str, Any]) -> dict[str, Any]:
    """The card with the signature of an SDK."""
    key = private("ES256", 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    environment, node = dict(os.environ), shutil.which("node")
    if signer == "@a2a-js/sdk 1.3.0":
        if node is None or not (HERE / "node_modules").is_dir():
            missing("@a2a-js/sdk (npm ci in tests/overlay/protocols/a2a)")
        command = [node, HERE / "sign.mjs"]
    else:
        if find_spec("a2a") is None or find_spec("jwt") is None or not (HERE / "python_modules").is_dir():
            missing("a2a-sdk[signing], or a2a-sdk 0.3 (python_modules.txt)")
        command = [sys.executable, HERE / "sign.py"]
        environment |= {"PYTHONPATH": str(HERE / "python_modules")} if signer == "a2a-sdk 0.3.26" else {}
    done = subprocess.run(
        [*command, key], input=json.dumps(card), capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 0, done.stderr
    signed: dict[str, Any] = json.loads(done.stdout)
    return signed


@pytest.mark.parametrize(
    ("signer", "card", "form"),
    [
        ("a2a-sdk 1.3.0", PRICED, "a2a-jcs"),
        ("@a2a-js/sdk 1.3.0", PRICED, "a2a-jcs"),
        ("a2a-sdk 0.3.26", OLD, "a2a-python"),
    ],
    ids=["a2a-sdk 1.3.0", "@a2a-js/sdk 1.3.0", "a2a-sdk 0.3.26"],
)
def test_a_card_signed_by_an_sdk_is_verified(signer: str, card: dict[str, Any], form: str) -> None:
    signed = sign(signer, card)
    check = verify(signed, [jwk("ES256")])
    assert (check.verified, check.form, check.covers_pricing) == (True, form, False)
    assert verify(signed | {"x-payment-config": []}, [jwk("ES256")]).verified
    assert verify(signed | {"name": "Echo"}, [jwk("ES256")]).code == "bad-signature"


MESSAGE, BOOLEAN = 11, 8  # FieldDescriptor.TYPE_…


def is_required(field: Any) -> bool:
    from google.api import field_behavior_pb2

    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def is_map(field: Any) -> bool:
    return field.type == MESSAGE and field.message_type.GetOptions().map_entry


def messages(descriptor: Any) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of a message of the protobuf definition: all REQUIRED members, some of the others, many of them empty, and a
    member that it does not define. Of a `oneof` at most one member."""
    if descriptor.full_name == "google.protobuf.Struct":
        return st.dictionaries(st.sampled_from(["a", "é"]), st.none() | st.just("") | st.just([]) | st.just(2))
    required, optional = {}, {"x-own": st.just("")}
    choices = {one.name: st.just({}) for one in descriptor.oneofs if len(one.fields) > 1}
    for field in descriptor.fields:
        if field.name == "signatures":
            continue
        if field.containing_oneof is not None and field.containing_oneof.name in choices:
            one = values(field).map(lambda value, name=field.json_name: {name: value})
            choices[field.containing_oneof.name] |= one
        else:
            (required if is_required(field) else optional)[field.json_name] = values(field)
    members = st.fixed_dictionaries(required, optional=optional)
    return st.tuples(members, *choices.values()).map(lambda parts: {k: v for part in parts for k, v in part.items()})


def values(field: Any) -> st.SearchStrategy[Any]:
    one: st.SearchStrategy[Any] = st.sampled_from(["", "é"])
    if is_map(field):
        return st.dictionaries(st.sampled_from(["", "k"]), values(field.message_type.fields_by_name["value"]))
    if field.type == MESSAGE:
        one = st.deferred(lambda: messages(field.message_type))
    elif field.type == BOOLEAN:
        one = st.booleans()
    return st.lists(one, max_size=2) if field.is_repeated else one


def specified(message: Any) -> dict[str, Any]:
    """The JSON that §8.4.1 wants of a protobuf message: what is set, and each REQUIRED member."""
    from google.protobuf.json_format import MessageToDict

    if message.DESCRIPTOR.full_name == "google.protobuf.Struct":
        return MessageToDict(message)
    form: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        is_set = message.HasField(field.name) if field.has_presence else bool(value)
        if field.name == "signatures" or not (is_set or is_required(field)):
            continue
        if is_map(field):
            has_messages = field.message_type.fields_by_name["value"].type == MESSAGE
            form[field.json_name] = {key: specified(value[key]) if has_messages else value[key] for key in value}
        elif field.type == MESSAGE:
            form[field.json_name] = list(map(specified, value)) if field.is_repeated else specified(value)
        else:
            form[field.json_name] = list(value) if field.is_repeated else value
    return form


@pytest.mark.skipif(find_spec("a2a") is None or find_spec("jwt") is None, reason="a2a-sdk[signing] is not installed")
def test_forms_of_any_card_are_those_of_its_protobuf_definition(caplog: pytest.LogCaptureFixture) -> None:
    from a2a.types import AgentCard
    from a2a.utils.signing import _canonicalize_agent_card
    from google.protobuf.json_format import ParseDict

    @settings(max_examples=150, deadline=None)
    @given(messages(AgentCard.DESCRIPTOR).map(lambda card: card | {"name": "é"}))
    def check(card: dict[str, Any]) -> None:
        message = ParseDict(card, AgentCard(), ignore_unknown_fields=True)
        payloads = [form.payload for form in canonical_forms(card)]
        assert rfc8785.dumps(specified(message)) in payloads
        assert _canonicalize_agent_card(message).encode() in payloads

    with caplog.at_level("ERROR", "a2a"):
        check()
