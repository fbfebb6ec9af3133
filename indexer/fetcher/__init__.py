"""Fetches the targets of pointers from untrusted hosts: cards, robots.txt, blocks of IPFS, TXT records and logos.

    url ─▶ target ─▶ dns ─▶ addresses ─▶ connections ─▶ http_fetcher ─▶ card_fetcher
           a name,   what it    special      to the        headers          hash,
           port 443  resolves   ones are     one checked   and body         order
                     to         refused      address

Every step raises `FetchError` with a code of `reasons`. When to fetch is decided by `schedule`, which does no I/O and
takes its clock as an argument. `fetch_loop` runs it all for `a2b up`.
"""
