"""Payment claims: each row of the specification's tables (§5.1, §5.3, §5.4, §9), and what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin.address import PREFIXES, address
from parsers.bitcoin.script import p2pkh, push
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise
from parsers.cards.fields import Fields
from parsers.cards.offers import Offer, read_offers
from parsers.claims.amount_due import CODES, PaymentRefusedError
from parsers.claims.payment import MAX_INPUTS, MAX_ITEMS, MAX_RAW_BYTES, Payment, PaymentTerms, UtxoChain, verify
from tests.vectors.kinds import KINDS
from tests.vectors.runner import run

KEY, OTHER = b"\x11" * 20, b"\x22" * 20
BSV, LTC, BCH = UtxoChain("bsv", "mainnet"), UtxoChain("ltc", "mainnet"), UtxoChain("bch", "mainnet")
SIGNED = push(b"\x30" * 71) + push(b"\x02" * 33)


def address_of(chain: UtxoChain, key: bytes = KEY) -> str:
    return str(address(p2pkh(key), PREFIXES[chain.coin][chain.network]))


def offer(**config: Any) -> Offer:
    """A price of 0.0005 BSV; with other members, of something else."""
    members = {"id": "p", "currency": "BSV", "amount": Decimal("0.0005"), "address": address_of(BSV), **config}
    return read_offers({"x-payment-config": [members]}, Fields(0), frozenset())[0]


def paying(*outputs: tuple[int, bytes], script: bytes = SIGNED, locktime: int = 0, sequence: int = 0xFFFFFFFF) -> str:
    spent = TxInput(Outpoint(b"\x01" * 32, 0), script, sequence)
    return serialise((spent,), tuple(TxOutput(*output) for output in outputs), locktime=locktime).hex()


def claim(**members: Any) -> dict[str, Any]:
    return {"configId": "p", "stage": "full", "currency": "BSV", "rawTx": paying((50_000, p2pkh(KEY)))} | members


def terms(*offers: Offer, **more: Any) -> PaymentTerms:
    chains = {"BSV": BSV, "LTC": LTC, "BCH": BCH}
    return replace(PaymentTerms(offers=offers or (offer(),), chains=chains), **more)


def refusal(value: Any, payment_terms: PaymentTerms) -> tuple[int, str, str]:
    with pytest.raises(PaymentRefusedError) as caught:
        verify(value, payment_terms)
    assert str(caught.value)
    assert caught.value.code == CODES[caught.value.name]
    return caught.value.code, caught.value.name, caught.value.reason


def test_every_vector_agrees(shared: Path) -> None:
    shown: list[str] = []
    assert run([shared / "vectors" / "trust" / "a2b_payments.jsonl"], KINDS, shown.append) == 0, shown


MANY_INPUTS = serialise(
    tuple(TxInput(Outpoint(b"\1" * 32, vout), b"\0", 0xFFFFFFFF) for vout in range(MAX_INPUTS + 1)),
    (TxOutput(50_000, p2pkh(KEY)),),
).hex()


@pytest.mark.parametrize(
    ("stage", "state", "needed"),
    [("deposit", "pending", 10_000), ("final", "needsFinal", 40_000), ("full", "pending", 50_000)],
)
def test_each_stage_of_a_deposit_needs_its_part(stage: str, state: str, needed: int) -> None:
    payment_terms = terms(offer(depositPct=Decimal("0.2"), slippagePct=0), state=state)
    payment = verify(claim(stage=stage, rawTx=paying((needed, p2pkh(KEY)))), payment_terms)
    assert (payment.needed, payment.least, payment.paid) == (needed, needed, needed)
    assert refusal(claim(stage=stage, rawTx=paying((needed - 1, p2pkh(KEY)))), payment_terms)[1] == "AmountInsufficient"


@pytest.mark.parametrize(
    ("members", "code", "name", "reason"),
    [
        ({"rawTx": None}, -32031, "PaymentInvalid", "claim-malformed"),
        ({"rawTx": 5}, -32031, "PaymentInvalid", "claim-malformed"),
        ({"configId": ["p"]}, -32031, "PaymentInvalid", "claim-malformed"),
        ({"currency": "B" * 257}, -32031, "PaymentInvalid", "claim-malformed"),
        ({"refundAddress": 1}, -32031, "PaymentInvalid", "claim-malformed"),
        ({"rawTx": "0g"}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": "0 1"}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": "00" * (MAX_RAW_BYTES + 1)}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying((50_000, p2pkh(KEY))) + "00"}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying((50_000, p2pkh(KEY)))[:-2]}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying()}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": serialise((), (TxOutput(1, b""),)).hex()}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying((-1, b""), (50_001, p2pkh(KEY)))}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying(*[(2**62, p2pkh(KEY))] * 4)}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying(*[(50, p2pkh(KEY))] * (MAX_ITEMS + 1))}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": MANY_INPUTS}, -32031, "PaymentInvalid", "transaction-malformed"),
        ({"rawTx": paying((50_000, p2pkh(KEY)), script=b"")}, -32031, "PaymentInvalid", "unsigned"),
        ({"configId": "q"}, -32031, "PaymentInvalid", "unknown-config"),
        ({"stage": "half"}, -32032, "StageMismatch", "stage"),
        ({"stage": "final"}, -32032, "StageMismatch", "stage"),
        ({"stage": "deposit"}, -32032, "StageMismatch", "no-deposit"),
        ({"rawTx": paying((49_499, p2pkh(KEY)))}, -32033, "AmountInsufficient", "amount"),
        ({"currency": "USD"}, -32034, "CurrencyUnsupported", "currency"),
        ({"currency": "SOL"}, -32034, "CurrencyUnsupported", "no-chain"),
        ({"currency": "LTC"}, -32034, "CurrencyUnsupported", "no-rate"),
        ({"rawTx": paying((50_000, p2pkh(OTHER)))}, -32034, "AddressMismatch", "address"),
        ({"rawTx": paying((50_000, b"\xa9\x14" + KEY + b"\x87"))}, -32034, "AddressMismatch", "address"),
        ({"rawTx": paying((50_000, p2pkh(KEY) + b"\x6a"))}, -32034, "AddressMismatch", "address"),
        ({"rawTx": paying((50_000, b"\x61" + p2pkh(KEY)))}, -32034, "AddressMismatch", "address"),
    ],
)
def test_a_faulty_claim_is_refused_with_the_code_of_the_specification(
    members: dict[str, Any], code: int, name: str, reason: str
) -> None:
    assert refusal(claim(**members), terms(offer(acceptedCurrencies=["LTC", "SOL"]))) == (code, name, reason)


def test_no_claim_is_payment_missing() -> None:
    assert refusal(None, terms()) == (-32030, "PaymentMissing", "missing")
    assert refusal([], terms()) == (-32031, "PaymentInvalid", "claim-malformed")


@pytest.mark.parametrize(
    ("state", "taken"),
    [("pending", {"deposit", "full"}), ("needsFinal", {"final"}), ("running", set()), ("completed", set()),
     ("failed", set())],
)  # fmt: skip
def test_a_task_takes_the_stages_of_its_state(state: str, taken: set[str]) -> None:
    payment_terms = terms(offer(depositPct=Decimal("0.2")), state=state)
    for stage in ("deposit", "final", "full"):
        if stage in taken:
            assert verify(claim(stage=stage), payment_terms).claim.stage == stage
        else:
            assert refusal(claim(stage=stage), payment_terms) == (-32032, "StageMismatch", "stage")


def test_slippage_is_one_percent_also_at_rate_1_unless_the_price_says_otherwise() -> None:
    assert verify(claim(rawTx=paying((49_500, p2pkh(KEY)))), terms()).least == 49_500
    for part, least in ((Decimal(0), 50_000), (Decimal("0.05"), 47_500), (Decimal("0.00001"), 50_000)):
        payment_terms = terms(offer(slippagePct=part))
        assert verify(claim(rawTx=paying((least, p2pkh(KEY)))), payment_terms).least == least
        assert refusal(claim(rawTx=paying((least - 1, p2pkh(KEY)))), payment_terms)[0] == -32033


def test_outputs_to_the_address_count_together_and_others_do_not() -> None:
    parts = paying((20_000, p2pkh(KEY)), (99_000, p2pkh(OTHER)), (30_000, p2pkh(KEY)))
    assert verify(claim(rawTx=parts), terms()).paid == 50_000


def test_another_currency_is_converted_exactly_and_paid_on_its_chain() -> None:
    def rate(currency: str, into: str) -> Decimal | None:
        return Decimal("0.3") if (currency, into) == ("BSV", "LTC") else None

    priced = offer(acceptedCurrencies=["LTC"], address=address_of(LTC), amount=Decimal("0.00000003"), slippagePct=0)
    payment = verify(claim(currency="ltc", rawTx=paying((1, p2pkh(KEY)))), terms(priced, rate=rate))
    assert (payment.needed, payment.chain, payment.due.amount) == (1, LTC, Decimal("0.00000001"))
    assert refusal(claim(), terms(priced, rate=rate))[1] == "AddressMismatch"  # an address of LTC is none of BSV


def test_a_cashaddr_matches_with_and_without_its_prefix() -> None:
    whole = address_of(BCH)
    for written in (whole, whole.removeprefix("bitcoincash:")):
        assert verify(claim(currency="BCH"), terms(offer(currency="BCH", address=written))).paid == 50_000


def test_a_price_for_other_skills_is_refused() -> None:
    priced = offer(skillIds=["watch"])
    assert verify(claim(), terms(priced, skill="watch")).offer == priced
    assert verify(claim(), terms(skill="anything")).paid == 50_000
    assert refusal(claim(), terms(priced, skill="sleep")) == (-32031, "PaymentInvalid", "skill")


def test_a_transaction_that_was_claimed_before_is_refused() -> None:
    txid = read(bytes.fromhex(claim()["rawTx"])).hex_id
    assert refusal(claim(), terms(is_used={txid}.__contains__)) == (-32031, "PaymentInvalid", "duplicate")
    assert verify(claim(), terms(is_used={"00" * 32}.__contains__)).tx.hex_id == txid


@pytest.mark.parametrize(
    ("locktime", "sequence", "height", "is_final"),
    [
        (0, 0, None, True),
        (900_000, 0xFFFFFFFF, None, True),
        (900_000, 0xFFFFFFFE, None, False),
        (900_000, 0xFFFFFFFE, 900_000, False),
        (899_999, 0xFFFFFFFE, 900_000, True),
        (1_500_000_000, 0, 2_000_000_000, False),
    ],
)
def test_a_transaction_must_be_final_in_the_next_block(
    locktime: int, sequence: int, height: int | None, is_final: bool
) -> None:
    value = claim(rawTx=paying((50_000, p2pkh(KEY)), locktime=locktime, sequence=sequence))
    payment_terms = terms(height=lambda _chain: height)
    if is_final:
        assert verify(value, payment_terms).tx.locktime == locktime
    else:
        assert refusal(value, payment_terms) == (-32031, "PaymentInvalid", "not-final")


def test_inputs_that_no_payment_has_are_refused() -> None:
    coinbase = TxInput(Outpoint(bytes(32), 0xFFFFFFFF), SIGNED, 0xFFFFFFFF)
    spent = TxInput(Outpoint(b"\x01" * 32, 0), SIGNED, 0xFFFFFFFF)
    for inputs in ((coinbase,), (spent, spent)):
        raw = serialise(inputs, (TxOutput(50_000, p2pkh(KEY)),)).hex()
        assert refusal(claim(rawTx=raw), terms())[2] == "transaction-malformed"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["p", "full", "BSV", claim()["rawTx"]]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*claim(), "x"]), inner, max_size=5),
)


@given(st.dictionaries(st.sampled_from(sorted(claim())), anything).map(lambda changed: claim(**changed)) | anything)
def test_whatever_is_claimed_is_a_payment_or_refused(value: Any) -> None:
    try:
        answer: Payment | int = verify(value, terms())
    except PaymentRefusedError as error:
        answer = error.code
    assert isinstance(answer, Payment) or answer in CODES.values()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_transaction_or_refused(raw: bytes) -> None:
    for currency in ("BSV", "LTC"):
        with pytest.raises(PaymentRefusedError):
            verify(claim(rawTx=raw.hex(), currency=currency), terms(offer(acceptedCurrencies=["LTC"])))
