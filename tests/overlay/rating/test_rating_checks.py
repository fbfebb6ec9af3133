"""A rating that a client computes again from what a server publishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from overlay.listings.local_source import LocalSource
from overlay.listings.repository import ListingRepository
from overlay.verify import rating_checks, verify
from parsers.claims import rating_windows
from tests.overlay.rating.registry import PRICE, Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB, Agent

DEEP = b"[" * 200_000
DEEP_SHA256 = sha256(DEEP).hexdigest()


class Server(LocalSource):
    """A server that may change what it answers about evidence, and serves DEEP under the hash of that."""

    def __init__(self, registry: Registry, change: Callable[[dict[str, Any]], object], rating: Any = None) -> None:
        super().__init__(ListingRepository(registry.store))
        self._reader, self._change, self._rating = registry.reader, change, rating

    def listing(self, id_: str) -> Any:
        item = super().listing(id_)
        return item if self._rating is None else {**item, "rating": self._rating}

    def evidence(self, id_: str, after: str | None = None) -> Any:
        assert after in (None, "again")
        answer = json.loads(json.dumps(self._reader.receipts_json(id_)))
        self._change(answer)
        return answer

    def document(self, sha256: str) -> bytes:
        return DEEP if sha256 == DEEP_SHA256 else self._reader.document(bytes.fromhex(sha256)) or b""


def raise_outcome(answer: dict[str, Any]) -> None:
    answer["records"][0]["outcome"] = "failed" if answer["records"][0]["outcome"] == "completed" else "completed"


def raise_payment(answer: dict[str, Any]) -> None:
    answer["records"][0]["payment"]["paid"] += 1


def claim_other_payer(answer: dict[str, Any]) -> None:
    answer["records"][0]["payment"]["payer"] = "mmVEKH61BZbLbnVEmk9VmojreB4G4PmBPd"


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (dict, "proved"),
        (raise_outcome, "not proved"),
        (raise_payment, "not proved"),
        (claim_other_payer, "not proved"),
        (lambda answer: answer["records"][0].update(completedAt=1), "not proved"),
        (lambda answer: answer["records"].pop(), "not proved"),
        (lambda answer: answer["facts"]["keys"].append("another"), "not proved"),
        (lambda answer: answer["records"][0].update(document=sha256(b"").hexdigest()), "not proved"),
        (lambda answer: answer.clear(), "not proved"),
        (lambda answer: answer["facts"].update(ownerOf=[1]), "not proved"),
        (lambda answer: answer["facts"].update(ratedPayers=None), "not proved"),
        (lambda answer: answer["records"][0].update(document=DEEP_SHA256), "not proved"),
        (lambda answer: answer["records"][0]["payment"].update(proof=DEEP_SHA256), "not proved"),
        (lambda answer: answer.update(next="again"), "not checked"),
    ],
)
async def test_the_rating_is_computed_again(
    change: Callable[[dict[str, Any]], object], outcome: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rating_checks, "MAX_PAGES", 2)
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        alice = await registry.inscribe(ALICE)
        registry.bind(ALICE, alice)
        for number in range(1, 4):
            task, payment = await registry.paid(Payer(number))
            status = "failed" if number == 3 else "completed"
            registry.intake.submit("receipt", registry.work(ALICE, BOB, task, status=status), payment=payment)
        registry.rate()
        server = Server(registry, change)
        report = verify(server, alice, expected="bsv:regtest", receipts=server)
        steps = {step.step: step for step in report.steps}
        assert steps["rating"].outcome == outcome, steps["rating"].detail
        assert ("rating" in report.missing) == (outcome == "not proved")
        assert "rating" in report.not_proved_members, "what was left out cannot be known"
        stated = server.listing(alice)["rating"]
        names = ("paidTasks", "customers", "failed", "stars")
        for form in (
            "five stars",
            5,
            {},
            {"score": [], "rung": {}, "evidence": None},
            *({**stated, n: 9} for n in names),
        ):
            again = verify(Server(registry, change, form), alice, expected="bsv:regtest", receipts=server)
            assert "rating" in again.missing or outcome == "not checked"
        earlier = {name: stated[name] for name in ("score", "evidence", "rung", "asOf")}
        report = verify(Server(registry, change, earlier), alice, expected="bsv:regtest", receipts=server)
        assert {step.step: step.outcome for step in report.steps}["rating"] == outcome, "of an overlay of release 0.2"


async def test_a_rating_of_more_receipts_than_count_is_computed_again_with_what_strangers_added(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("MAX_PAID", 2), ("MAX_COUNTER_SIGNED", 2), ("MAX_A_SIGNER", 1)):
        monkeypatch.setattr(rating_windows, name, limit)
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        alice = await registry.inscribe(ALICE)
        registry.bind(ALICE, alice)
        for number in range(1, 5):
            task, payment = await registry.paid(Payer(number), satoshis=PRICE + number)
            receipt = registry.receipt(ALICE, task, status="failed" if number == 3 else "completed")
            for signer in (BOB, Agent(100 + number), Agent(110 + number)):
                registry.intake.submit("receipt", registry.receipt(signer, nested=[receipt]), payment=payment)
            registry.intake.submit("receipt", registry.work(ALICE, BOB))
        rating = registry.rating(alice)
        assert (rating.rung, rating.completed, rating.failed) == (2, 2, 1), "two payments, and one receipt by Bob"
        server = Server(registry, dict)
        report = verify(server, alice, expected="bsv:regtest", receipts=server)
        (step,) = [step for step in report.steps if step.step == "rating"]
        assert step.outcome == "proved", step.detail
