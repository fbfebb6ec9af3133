"""Which offer of a listing is shown where offers are asked for, in bytes that a compiled loop reads (`gathering`).

`choices` says of each offer what filters compare and what is told of it; `asked` says what a query asks for. The law
itself stands in `parsers.matching`, and `prices` reads the same from JSON, for all that is not told here.
"""

from __future__ import annotations

import json
from array import array
from decimal import Decimal
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from overlay.query import Cheapest, Query
from overlay.search.listed import U64, fact_key, facts_of_offer, priced
from overlay.search.prices import amount_key
from overlay.telling import cheapest

if TYPE_CHECKING:
    from overlay.search.segment import Offered

_COUNT = Struct("<I")
_ROW = Struct("<QII")  # the key of the amount, and where the keys of facts and the text end, from those of the first on
ANY: U64 = np.zeros(0, np.uint64)
"""What a query asks for that asks for no offer: the listing's cheapest is shown."""
_LARGEST = (1 << 64) - 1


def choices(packed: bytes) -> bytes:
    """Of a listing's offers (`prices.pack`), in card order: their number (u32), a row of 16 bytes for each, the keys of
    their facts (u64), that of the currency first, and the members `cheapest` that tell them. Little-endian."""
    offers = json.loads(packed.partition(b"\n")[0]) if packed else []
    rows, keys, texts = bytearray(), array("Q"), bytearray()
    for id_, currency, amount, interval, accepted in offers:
        keys.extend(map(fact_key, facts_of_offer(currency, interval, accepted)))
        texts += cheapest(Cheapest(id_, amount, currency, interval))
        rows += _ROW.pack(amount_key(Decimal(amount)), len(keys), len(texts))
    return b"".join((_COUNT.pack(len(offers)), rows, np.array(keys, "<u8").tobytes(), texts))


def asked(query: Query, offered: Offered) -> U64:
    """What an offer has to be to be shown: the key of its currency, or 0 for that of the first that meets the rest; the
    lowest and the highest key of its amount; the number of groups of facts, where the keys of each end, and these."""
    into = 0 if query.price_currency is None else fact_key(priced(query.price_currency))
    low, high = offered.low or 0, _LARGEST if offered.high is None else offered.high
    found, keys = array("Q", (into, low, high, len(offered.groups))), array("Q")
    for group in offered.groups:
        keys.extend(map(fact_key, group))
        found.append(len(keys))
    return np.frombuffer(found + keys, np.uint64)
