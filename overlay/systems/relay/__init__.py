"""A relay of Motebit agents: registered agents, tasks with locked funds, and settlement by receipts, hop by hop.

No key here can spend: deposits are seen on a chain, and withdrawals are signed elsewhere.
"""

from __future__ import annotations

from overlay.installation import System

SYSTEM = System(name="relay", api="relay_api", tables="store", jobs="own_relay", commands=("relay_cash",))
