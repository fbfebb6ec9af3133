"""Who has room for submitted transactions: what an owner of coins and a client may have that is not broadcast, and who
makes room when all of it is taken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indexer.store import Store, connect, submissions
from indexer.store.submissions import FullError, Share, Submission
from parsers.bitcoin.tx import Outpoint


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    engine = connect(database_url)
    yield Store(engine)
    engine.dispose()


def submit(store: Store, owner: str, *numbers: int, client: str = "c", spends: int = 0, **members: object) -> None:
    """Transactions of one owner, by number; `spends` is the number of the one whose output the first spends."""
    parent = Outpoint(spends.to_bytes(32), 0) if spends else None
    new = [
        Submission(**{
            "txid": number.to_bytes(32), "raw": bytes(100), "listings": (1,),
            "spends": (parent or Outpoint(number.to_bytes(32, "little"), 7),), **members,
        })
        for number in numbers
    ]  # fmt: skip
    store.submissions.add("live", new, Share(owner.encode(), client))


def there(store: Store) -> set[int]:
    return {int.from_bytes(txid) for txid in store.submissions.pending("live")}


def test_owners_and_clients_have_so_many_listings_each(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MAX_LISTINGS", 3)
    submit(store, "a", 1, 2, client="x")
    with pytest.raises(FullError, match="4 listings of the owner of this coin: at most 3 are"):
        submit(store, "a", 3, 4, client="y")
    submit(store, "b", 5, client="x")
    with pytest.raises(FullError, match="4 listings of this client"):
        submit(store, "c", 6, client="x")
    submit(store, "a", 7, client="y")
    submit(store, "a", 8, client="y", listings=())  # an ancestor without records
    store.submissions.settle("live", [number.to_bytes(32) for number in (1, 5)])
    submit(store, "a", 9, client="x")
    assert there(store) == {1, 2, 5, 7, 8, 9}


def test_owners_and_clients_have_so_many_bytes_each(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MAX_SHARE_BYTES", 1_000)
    submit(store, "a", 1, raw=bytes(600), beef=bytes(700))  # the first, of any size
    for owner, client, holder in (("a", "y", "the owner"), ("b", "c", "this client")):
        with pytest.raises(FullError, match=f"1,400 bytes of {holder}.*: at most 1,000 are stored that no source has"):
            submit(store, owner, 2, client=client)
    submit(store, "b", 2, client="y")
    assert there(store) == {1, 2}


def test_a_customer_of_ipv6_has_the_room_of_sixteen_clients_however_many_addresses_it_uses(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MAX_LISTINGS", 2)
    for number in range(1, 33):
        submit(store, f"owner {number}", number, client=f"2001:db8:1:{number:x}::/64")
    with pytest.raises(FullError, match="33 listings of the network 2001:db8:1::/48: at most 32 are"):
        submit(store, "another", 99, client="2001:db8:1::/64")
    monkeypatch.setattr(submissions, "MAX_SHARE_BYTES", 200)
    with pytest.raises(FullError, match="3,300 bytes of the network 2001:db8:1::/48: at most 3,200 are"):
        submit(store, "another", 99, client="2001:db8:1::/64", listings=())
    submit(store, "another", 99, client="2001:db8:2::/64")


def test_when_all_room_is_taken_the_oldest_of_the_largest_owner_go(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MAX_SUBMISSIONS", 6)
    submit(store, "honest", 50)
    submit(store, "many", 9, 8, 7, 6)
    submit(store, "other", 51, client="y")
    store.submissions.settle("live", [(9).to_bytes(32)])  # for a fee that is next to nothing
    submit(store, "new", 52)
    assert there(store) == {50, 51, 52, 8, 7, 6}
    submit(store, "new", 53)
    assert there(store) == {50, 51, 52, 53, 7, 6}
    submit(store, "many", 5)  # one's own, where nobody has more
    assert there(store) == {50, 51, 52, 53, 5, 6}


def test_the_owner_of_most_bytes_makes_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MAX_BYTES", 10_000)
    for number in (1, 2, 3):
        submit(store, "small", number)
    for number in (4, 5, 6):
        submit(store, "large", number, raw=bytes(3_000))
    submit(store, "new", 7, raw=bytes(3_100))
    assert there(store) == {1, 2, 3, 5, 6, 7}
    with pytest.raises(FullError, match="by smaller ones of others"):
        submit(store, "huge", 8, raw=bytes(9_900))
    assert there(store) == {1, 2, 3, 5, 6, 7}


def test_what_descends_from_a_dropped_one_goes_with_it_and_ancestors_of_the_new_one_stay(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MAX_SUBMISSIONS", 3)
    submit(store, "a", 1)
    submit(store, "b", 2, spends=1)
    submit(store, "a", 3)
    submit(store, "c", 4)
    assert there(store) == {3, 4}
    submit(store, "d", 5)
    submit(store, "a", 3, 6)
    assert there(store) == {3, 5, 6}
