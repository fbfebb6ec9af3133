"""Payments by A2B claims: checking them against a node, and a gate that demands them of a server's clients."""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(
    name="payments", api="payment_api", tables="store", jobs="own_payments", commands=("pay_check", "owed_refunds")
)
