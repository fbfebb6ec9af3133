"""The Engine of `@bsv/overlay` as an oracle: the same submissions, one after the other, are admitted alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from indexer.admission.admission import Admissions
from indexer.errors import NotAdmittedError
from parsers.bitcoin.beef import write
from parsers.bitcoin.tx import read
from tests.bitcoind import Coin, Key, pay
from tests.indexing import empty, fresh
from tests.minting import FUND, Mint, forged
from tests.overlay.protocols.bsv_overlay.overlay_clients import engine

__all__ = ["empty"]


class Submissions:
    """Packages of BEEF by what they are, in the order of submission."""

    def __init__(self, mint: Mint) -> None:
        self.mint, self.packages = mint, dict[str, bytes]()

    def add(self, what: str, *raws: bytes, **form: Any) -> bytes:
        """Submit the last of these transactions; the others are its ancestors."""
        self.packages[what] = self.mint.package(*raws, **form)
        return raws[-1]

    def spend(self, coins: list[Coin], *outputs: tuple[int, bytes]) -> bytes:
        """The raw transaction that spends coins for these outputs and change."""
        change = sum(coin.satoshis for coin in coins) - sum(satoshis for satoshis, _ in outputs) - 500
        return pay(coins, [*outputs, (change, self.mint.key.lock)])


def alike(mint: Mint) -> dict[str, bytes]:
    """Submissions to which both should answer the same."""
    submissions, coins, lock = Submissions(mint), mint.coins, mint.key.lock
    first = submissions.add("an inscription", mint.inscribed("First"))
    update = submissions.add("an update", first, mint.inscribed("First", 1, mint.coin_of(first, 0), version="2"))
    moved = submissions.spend([mint.coin_of(update, 0), coins[2]], (1, lock))
    submissions.add("a transfer", first, update, moved)
    tx = submissions.spend([coins[3], mint.coin_of(moved, 0), coins[14]], (FUND, lock), (1, lock))
    submissions.add("a transfer behind another input", first, update, moved, tx)
    lost = submissions.spend([coins[4], mint.coin_of(tx, 1)], (5_000, lock))
    submissions.add("a satoshi that goes into change", first, update, moved, tx, lost)
    submissions.add("a payment", mint.payment(5))
    two = submissions.spend([coins[6]], (1, mint.inscription("Two")), (1, mint.inscription("More")))
    submissions.add("two inscriptions", two, version=2)
    both = submissions.spend(
        [mint.coin_of(two, 0), mint.coin_of(two, 1), coins[7]], (1, mint.inscription("Two", version="2")), (1, lock)
    )
    submissions.add("two updates at once", two, both, subject=read(both).txid)
    submissions.add("two satoshis", submissions.spend([coins[8]], (2, mint.inscription("Large"))))
    later = submissions.spend([coins[9]], (700, lock), (1, mint.inscription("Later")))
    submissions.add("an inscription behind a payment", later)
    submissions.add("a signature of another key", pay([coins[10]._replace(key=Key(9))], [(1, lock), (5_000, lock)]))
    submissions.add("more than there is", mint.inscribed("Rich", 11, fee=-5_000))
    submissions.packages["a forged path"] = write([(mint.funding, forged(mint.path)), (mint.inscribed("No", 12), None)])
    submissions.packages["no parent"] = write([(mint.funding, mint.path), (mint.inscribed("Orphan", 13), None)])[:-40]
    return submissions.packages


def answers(admissions: Admissions, packages: dict[str, bytes]) -> dict[str, Any]:
    """The answers of this overlay."""
    answered: dict[str, Any] = {}
    for what, package in packages.items():
        try:
            answered[what] = admissions.submit(package).as_json()
        except NotAdmittedError:
            answered[what] = "refused"
    return answered


async def test_submissions_are_admitted_as_by_the_engine(empty: Path) -> None:
    mint = Mint(coins=20)
    packages = alike(mint)
    roots = {str(mint.path.height): mint.path.merkle_root[::-1].hex()}
    expected = await engine(roots=roots, submit=[package.hex() for package in packages.values()])
    with fresh(empty, mint.chain) as indexing:
        await indexing.catch_up()
        answered = answers(Admissions(indexing.store), packages)
    assert answered == dict(zip(packages, expected, strict=True))
    admitted = [answer["outputsToAdmit"] for answer in expected if answer != "refused"]
    assert len(admitted) == 10
    assert [0, 1] in admitted


async def test_where_this_overlay_is_stricter_than_the_engine(empty: Path) -> None:
    """The Engine admits both spends of one coin, knows no fees, and answers a repeated submission with nothing."""
    mint = Mint()
    first = mint.package(mint.inscribed("First"))
    packages = {
        "first": first,
        "again": mint.package(mint.inscribed("First"), version=2),
        "a second spend": mint.package(mint.inscribed("Second")),
        "no fee": mint.package(mint.inscribed("Free", 1, fee=0)),
    }
    roots = {str(mint.path.height): mint.path.merkle_root[::-1].hex()}
    theirs = await engine(roots=roots, submit=[package.hex() for package in packages.values()])
    fresh_answer, nothing = ({"outputsToAdmit": outputs, "coinsToRetain": []} for outputs in ([0], []))
    assert theirs == [fresh_answer, nothing, fresh_answer, fresh_answer]
    with fresh(empty, mint.chain) as indexing:
        await indexing.catch_up()
        ours = answers(Admissions(indexing.store), packages)
    assert list(ours.values()) == [fresh_answer, fresh_answer, "refused", "refused"]
