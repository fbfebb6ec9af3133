"""Any number of strangers may name a host or copy a card: what the host confirms is among the listings looked at."""

from __future__ import annotations

import pytest

from indexer.check_verdict import HostVerdict
from indexer.store import Store, Writer, block_writer, card_signatures, visits
from indexer.store.badges import BadgeCandidate
from overlay.systems.motebit import store_hosts
from tests.facts import CARD, born, outpoint_of, says

HOST = "echo.example"


@pytest.mark.parametrize("module", [store_hosts, card_signatures])
def test_the_listing_that_a_host_confirms_comes_before_those_of_strangers(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    events = [born(letter, position, 1) for position, letter in enumerate("abcde")]
    block_writer.append(writer, "demo", [says("0"), says("1", *events)])
    ids = [str(outpoint_of(letter)) for letter in "abcde"]
    confirmed = ids[2]
    visits.update_candidates(writer, [BadgeCandidate(id_, HOST, CARD) for id_ in ids], ids, None, 1)
    visits.record_host(writer, HostVerdict(HOST, frozenset({confirmed}), frozenset(), frozenset()), 2)
    monkeypatch.setattr(module, "MAX_IDS", 1)
    with store.engine.connect() as connection:
        if module is store_hosts:
            assert list(store_hosts.ids_of(connection, HOST)) == [confirmed]
        else:
            assert card_signatures.ids_of(connection, CARD) == [confirmed]
