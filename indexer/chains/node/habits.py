"""What nodes of different coins do differently: one row a coin."""

from __future__ import annotations

from typing import NamedTuple


class Habits(NamedTuple):
    """`raw_block` asks `getblock` for hex: 0, or False where the parameter is a boolean (Dogecoin, of Bitcoin 0.14's
    line). `auxpow`: headers are followed by the work of another chain. `segwit`: transactions may carry witnesses."""

    raw_block: int | bool
    auxpow: bool
    segwit: bool


HABITS = {
    "bsv": Habits(0, auxpow=False, segwit=False),
    "btc": Habits(0, auxpow=False, segwit=True),
    "ltc": Habits(0, auxpow=False, segwit=True),
    "bch": Habits(0, auxpow=False, segwit=False),
    "doge": Habits(raw_block=False, auxpow=True, segwit=False),
}
