"""Delegations, bearer tokens and identity files of Motebit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.claims import ed25519
from parsers.claims.canonical_json import base64url_text, jcs
from parsers.claims.motebit.bearer_token import verify_token
from parsers.claims.motebit.delegations import (
    DelegationRules,
    verify_delegation,
    verify_delegation_chain,
    verify_tick,
)
from parsers.claims.motebit.identity_file import verify_identity
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, NOW

RULES = DelegationRules(keys={}, now=NOW)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({}, ""),
        ({"expires_at": NOW}, ""),
        ({"expires_at": NOW - 1}, "expired"),
        ({"not_before": NOW + 1}, "not-yet-valid"),
        ({"issued_at": NOW + 3_600_000, "expires_at": NOW + 7_200_000}, "future-dated"),
        ({"suite": "other"}, "unknown-suite"),
        ({"note": 1}, "malformed"),
        ({"scope": ""}, "malformed"),
        ({"delegator_public_key": BOB.key.hex()}, "bad-signature"),
        ({"delegator_public_key": (b"\x01" + bytes(31)).hex()}, "weak-key"),
    ],
)
def test_a_delegation_that_breaks_a_rule_says_which(members: dict[str, Any], code: str) -> None:
    assert verify_delegation(ALICE.delegate(BOB, **members), RULES).error == code


def test_a_token_before_suites_is_named_legacy_and_never_counts() -> None:
    token = ALICE.delegate(BOB)
    del token["suite"], token["signature"]
    token |= {"delegator_public_key": base64url_text(ALICE.key), "delegate_public_key": base64url_text(BOB.key)}
    verdict = verify_delegation(ALICE.sign(token), RULES)
    assert (verdict.verified, verdict.error, verdict.members["profile"]) == (False, "legacy-profile", "legacy")
    assert verify_delegation(BOB.sign(token), RULES).error == "unknown-suite"


def test_a_used_token_and_one_of_another_key_are_refused() -> None:
    token = ALICE.delegate(BOB)
    assert verify_delegation(token, DelegationRules(keys={ALICE.id: CAROL.key}, now=NOW)).error == "key-mismatch"
    seen = frozenset({token["signature"]})
    assert verify_delegation(token, DelegationRules(keys={}, now=NOW, seen=seen)).error == "replayed"


@pytest.mark.parametrize(
    ("chain", "code"),
    [
        ([], ""),
        ([ALICE.delegate(BOB), BOB.delegate(CAROL, "read_url")], ""),
        ([ALICE.delegate(BOB, "*"), BOB.delegate(CAROL, "pay")], ""),
        ([ALICE.delegate(BOB), BOB.delegate(CAROL, "read_url,pay")], "scope-widened"),
        ([ALICE.delegate(BOB), BOB.delegate(CAROL, "*")], "scope-widened"),
        ([ALICE.delegate(BOB), CAROL.delegate(ALICE, "read_url")], "broken-chain"),
        ([BOB.delegate(CAROL, "read_url"), ALICE.delegate(BOB)], "broken-chain"),
        ([ALICE.delegate(BOB), BOB.delegate(CAROL, "read_url", expires_at=1)], "expired"),
        ([ALICE.delegate(BOB)] * 40, "malformed"),
        ([1], "malformed"),
    ],
)
def test_a_chain_is_linked_narrowed_and_valid_now(chain: list[Any], code: str) -> None:
    verdict = verify_delegation_chain(chain, RULES)
    assert verdict.error == code, verdict.detail


def grant(**more: Any) -> dict[str, Any]:
    parties = ALICE.delegate(BOB, "web_search", grant_id="g1", **more)
    return ALICE.sign(
        parties | {"subject": "", "cadence_ms": 1, "not_before": None, "max_token_ttl_ms": 100_000}
    )  # fmt: skip


def test_a_revoked_grant_ends_its_tokens_and_only_its_delegator_revokes_it() -> None:
    token = ALICE.delegate(BOB, "web_search", grant_id="g1")
    body = {"grant_id": "g1", "delegator_id": ALICE.id, "revoked_at": NOW, "suite": token["suite"]}
    revocation = ALICE.sign(body | {"delegator_public_key": ALICE.key.hex()})
    forged = BOB.sign(body | {"delegator_public_key": ALICE.key.hex()})
    foreign = BOB.sign(body | {"delegator_public_key": BOB.key.hex()})
    fresh = verify_tick(token, grant(), [forged, foreign, 7], RULES)
    assert (fresh.verified, fresh.revocation) == (True, "fresh")
    revoked = verify_tick(token, grant(), [forged, revocation], RULES)
    assert (revoked.error, revoked.authority, revoked.revocation) == ("revoked", "valid", "revoked")
    assert verify_tick(token, grant(), None, RULES).revocation == "unchecked"


def test_a_token_is_no_wider_and_lives_no_longer_than_its_grant() -> None:
    wide = ALICE.delegate(BOB, "pay", grant_id="g1")
    assert verify_tick(wide, grant(), [], RULES).error == "scope-widened"
    long = ALICE.delegate(BOB, "web_search", grant_id="g1", expires_at=NOW + 200_000)
    assert verify_tick(long, grant(), [], RULES).error == "grant-mismatch"
    assert verify_tick(ALICE.delegate(BOB, "web_search"), grant(), [], RULES).error == "grant-mismatch"
    ended = verify_tick(ALICE.delegate(BOB, "web_search", grant_id="g1"), grant(expires_at=1), [], RULES)
    assert ended.error == "grant-invalid"
    assert verify_tick(ALICE.delegate(BOB, "web_search", grant_id="g1"), 5, [], RULES).error == "malformed"


KEYS = {ALICE.id: ALICE.key}


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({}, ""),
        ({"exp": NOW}, "expired"),
        ({"iat": NOW + 3_600_000, "exp": NOW + 3_900_000}, "future-dated"),
        ({"jti": ""}, "malformed"),
        ({"aud": ""}, "malformed"),
        ({"aud": "task:admin"}, "audience-mismatch"),
        ({"jti": "used"}, "replayed"),
        ({"suite": "none"}, "unknown-suite"),
        ({"mid": BOB.id}, "unknown-key"),
    ],
)
def test_a_bearer_token_that_breaks_a_rule_says_which(members: dict[str, Any], code: str) -> None:
    verdict = verify_token(ALICE.token(**members), KEYS, NOW, audience="task:submit", seen=frozenset({"used"}))
    assert verdict.error == code


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_of_a_bearer_token_verifies(data: st.DataObject) -> None:
    token = ALICE.token()
    index = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda character: character != token[index]))
    assert verify_token(token[:index] + other + token[index + 1 :], KEYS, NOW).error
    assert verify_token(token[:index], KEYS, NOW).error


def succession_lines(*records: dict[str, Any]) -> list[str]:
    lines = ["succession:"]
    for record in records:
        members = [f"{name}: {value}" for name, value in record.items()]
        lines += [f"  - {members[0]}", *(f"    {member}" for member in members[1:])]
    return lines


def test_an_identity_file_is_bound_by_its_key_or_by_the_first_of_its_succession() -> None:
    assert verify_identity(ALICE.identity_file(), {}).binding == "sovereign"
    file = BOB.identity_file(*succession_lines(ALICE.succeed(BOB))).replace(BOB.id, ALICE.id)
    text = file.split("---\n")[1].removesuffix("\n")
    signature = ed25519.sign(BOB.seed, text.encode()).hex()
    file = f"---\n{text}\n---\n<!-- motebit:sig:motebit-jcs-ed25519-hex-v1:{signature} -->"
    verdict = verify_identity(file, {})
    assert (verdict.error, verdict.binding, verdict.members["succession"]["rotations"]) == ("", "sovereign", 1)
    assert verify_identity(file, {ALICE.id: CAROL.key}).error == "key-mismatch"


@pytest.mark.parametrize(
    "records",
    [
        [ALICE.succeed(CAROL)],
        [ALICE.succeed(BOB) | {"timestamp": NOW + 1}],
        [CAROL.succeed(ALICE, NOW), ALICE.succeed(BOB, NOW)],
        [CAROL.succeed(ALICE, NOW), CAROL.succeed(BOB, NOW + 1)],
        [ALICE.succeed(BOB) | {"recovery": True}],
        [ALICE.succeed(BOB) | {"suite": "other"}],
    ],
)
def test_a_broken_succession_breaks_the_file(records: list[dict[str, Any]]) -> None:
    verdict = verify_identity(BOB.identity_file(*succession_lines(*records)), {})
    assert (verdict.verified, verdict.error) == (False, "broken-succession"), verdict.detail


def test_a_guardian_attests_to_the_identity() -> None:
    claim = {"action": "guardian_attestation", "guardian_public_key": CAROL.key.hex(), "motebit_id": ALICE.id}
    signed = ed25519.sign(CAROL.seed, jcs(claim)).hex()
    lines = ("guardian:", f'  public_key: "{CAROL.key.hex()}"')
    assert verify_identity(ALICE.identity_file(*lines, f'  attestation: "{signed}"'), {}).verified
    forged = ed25519.sign(BOB.seed, jcs(claim)).hex()
    assert verify_identity(ALICE.identity_file(*lines, f'  attestation: "{forged}"'), {}).error == "bad-guardian"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text.replace("\n", "\r\n"), "malformed"),
        (lambda text: text.replace("Ed25519\n", "Ed25519 \n"), "bad-signature"),
        (lambda text: text.replace("sig:motebit-jcs-ed25519-hex-v1", "sig:Ed25519"), "bad-signature"),
        (lambda text: text.replace("motebit_id", "a: &x 1\nb: *x\nmotebit_id"), "malformed"),
        (lambda text: text.replace("motebit_id", "motebit_id: 1\nmotebit_id"), "malformed"),
        (lambda text: text.replace("motebit_id", "a: " + "[" * 5_000 + "\nmotebit_id"), "malformed"),
        (lambda text: text.replace("motebit_id", "a: !!python/name:os.system\nmotebit_id"), "malformed"),
        (lambda text: "x" * 200_000 + text, "too-large"),
        (lambda text: text[:60], "malformed"),
    ],
)
def test_a_changed_identity_file_says_why(change: Any, code: str) -> None:
    assert verify_identity(change(ALICE.identity_file()), {}).error == code
