"""Fetches what strangers point at: cards, their opt-outs and blocks of IPFS, without ever being led elsewhere.

    url ─▶ target ─▶ resolving ─▶ addresses ─▶ network ─▶ answer ─▶ cards
           a name,   what it      which are    to the     headers   hash,
           port 443  resolves to  never asked  one judged and body  order

Every door refuses with a `FetchError` that carries a code of `reasons`. When to ask is `schedule`'s business, which
knows no network and no clock of its own.
"""
