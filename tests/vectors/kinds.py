"""The functions that evaluate each kind of vector, by system and kind (`""` for the only kind of a system)."""

from __future__ import annotations

from tests.vectors import a2b_payments, delegateos, motebit, mrp_envelopes
from tests.vectors.runner import Evaluate

KINDS: dict[tuple[str, str], Evaluate] = {
    ("a2b-payments", ""): a2b_payments.evaluate,
    **{("delegateos", kind): evaluate for kind, evaluate in delegateos.KINDS.items()},
    ("mrp", ""): mrp_envelopes.evaluate,
    **{("motebit", kind): evaluate for kind, evaluate in motebit.KINDS.items()},
}
