"""EVIDENCE in: an agent of a chain whose host publishes its MRP keys hands in what it signed of its work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.mrp.artifact_hashes import MAX_OUTPUTS, check_outputs
from tests.chainkit import ChainKit, agent
from tests.https import Https
from tests.overlay.calls import local_http, read_json
from tests.overlay.protocols.mrp.test_mrp import message
from tests.overlay.protocols.mrp.test_registration import ISSUER, KEYS, SEED, signed
from tests.parsers.claims.motebit.signers import Agent
from tests.running import Running

KEY = ed25519.public_key_of(SEED)
TEXT = {"type": "text", "value": "done", "hash": f"sha256:{sha256(b'done').hexdigest()}", "size": 4}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A running overlay, and the id of its agent, whose key is bound to it by a token."""
    kit, folder, worker = ChainKit(), tmp_path_factory.mktemp("evidence"), Agent(SEED[0])
    claim = {"motebit_id": worker.id, "public_key": KEY.hex(), "did": "", "spec": "x"}
    outpoint = kit.inscribe(agent("Worker", url=f"https://{ISSUER}/a2a", **{"x-motebit": claim}))
    kit.mine(outpoint)
    (folder / "blocks").mkdir()
    kit.write(folder / "blocks")
    flags = ("--port", "0", "--limits", "off", "--chains", f"live=files:{folder}/blocks?chain=bsv")
    with Https(folder, ISSUER) as hosts:
        hosts.bodies[ISSUER, "/.well-known/mrp-keys.json"] = json.dumps(KEYS).encode()
        with Running("up", *flags, cwd=folder, **hosts.environment) as running:
            running.until_ready()
            now = time.time_ns() // 1_000_000
            times = {"iat": now, "exp": now + 300_000}
            bind = worker.token(aud="custom:a2b-bind", origin=str(outpoint), **times)
            bound = local_http.post(f"{running.url}/v1/evidence", json={"listing": str(outpoint), "bind": bind})
            assert bound.status_code == 200, bound.text
            yield running.url, str(outpoint)


def hand_in(url: str, envelope: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = local_http.post(f"{url}/mrp/evidence", json=envelope).json()
    return answer


def evidence(listing: str, *outputs: Any, **more: Any) -> dict[str, Any]:
    payload = {"route_id": f"route:a2b/{listing}/x@{'00' * 32}", "job_id": "job-1", "outputs": list(outputs)}
    return message("EVIDENCE", payload, in_reply_to="11112222", receiver={"id": "registry:a2b"}, **more)


def test_signed_evidence_of_a_bound_key_is_stored(registry: tuple[str, str]) -> None:
    url, listing = registry
    response = local_http.post(f"{url}/mrp/evidence", json=signed(evidence(listing, TEXT)))
    answer = response.json()
    stored = answer["payload"]["provenance"]
    assert stored["request_id"] == response.headers["X-Request-Id"]
    assert (answer["msg_type"], stored["listings"], stored["hashes_checked"], stored["new"]) == (
        "EVIDENCE", [listing], 1, 1,
    )  # fmt: skip
    records = read_json(f"{url}/v1/listings/{listing}/evidence")["records"]
    assert len(records) == 1


@pytest.mark.parametrize(
    ("outputs", "is_signed", "code"),
    [
        ([TEXT | {"value": "other"}], True, "MRP_INVALID_REQUEST"),
        ([TEXT], False, "MRP_AUTH_REQUIRED"),
    ],
)
def test_what_does_not_hold_is_refused(registry: tuple[str, str], outputs: Any, is_signed: bool, code: str) -> None:
    url, listing = registry
    envelope = evidence(listing, *outputs)
    answer = hand_in(url, signed(envelope) if is_signed else envelope)
    assert (answer["msg_type"], answer["payload"]["code"]) == ("ERROR", code)


@pytest.mark.parametrize(
    ("output", "checked"),
    [
        (TEXT, 1), ({"type": "text", "value": "x"}, 0),
        (TEXT | {"hash": f"sha256:{sha256(b'done').hexdigest().upper()}"}, 1),
        ({"type": "json", "value": {"b": 1, "a": 2}, "hash": f"sha256:{sha256(jcs({'a': 2, 'b': 1})).hexdigest()}"}, 1),
        ({"type": "artifact", "uri": "data:,done", "hash": TEXT["hash"]}, 1),
        ({"type": "artifact", "uri": "https://a.example/x", "hash": TEXT["hash"]}, 0),
    ],
)  # fmt: skip
def test_hashes_of_content_that_is_there_are_recomputed(output: Any, checked: int) -> None:
    assert check_outputs([output]) == checked


@pytest.mark.parametrize(
    "outputs",
    [
        [TEXT | {"value": "other"}], [TEXT | {"size": 5}], [TEXT | {"hash": "md5:00"}], [TEXT | {"hash": "sha256"}],
        [{"type": "artifact", "uri": "data:;base64,!", "hash": TEXT["hash"]}], [TEXT] * (MAX_OUTPUTS + 1),
        [{"type": "json", "value": float("nan"), "hash": TEXT["hash"]}],
    ],
)  # fmt: skip
def test_outputs_with_other_content_are_refused(outputs: Any) -> None:
    with pytest.raises(DocumentError):
        check_outputs(outputs)
