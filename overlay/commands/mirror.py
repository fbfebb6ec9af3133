"""`a2b mirror`: everything that another overlay admitted, verified, into a database of one's own."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Coroutine
from contextlib import closing
from typing import TYPE_CHECKING, Any

from indexer.retries import Backoff
from overlay.commands.options import UsageError, command, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import progress_of, say

if TYPE_CHECKING:
    from indexer.chains import Chain
    from indexer.store import Store, Writer
    from indexer.sync.follower import Follower
    from overlay.commands.options import Commands

ATTEMPTS, BACKOFF = 7, Backoff(1.0, 60.0)
"""Attempts to get on, and the pauses between them: a minute in all."""

SILENT_SECONDS, LOOK_SECONDS = 60.0, 1.0
"""How long an answer is waited for, and between two looks."""


def add(commands: Commands) -> None:
    """Add `a2b mirror`."""
    parser = command(
        commands, "mirror", mirror,
        "Read everything that another overlay admitted on BSV into an own database, verifying each transaction by its "
        "merkle path and headers by work. Exit code 1 when the anchors (BRC-136) differ at the end.",
        "data", "database",
        more="An interrupted mirror continues where it ended. What that overlay leaves out is not seen: compare with "
        "another one (a2b verify --complete). To follow it, use overlay:URL in A2B_CHAINS; a2b rebuild makes "
        "the search index.",
    )  # fmt: skip
    parser.add_argument("url", metavar="URL", help="the overlay to read")
    parser.add_argument("--name", metavar="NAME", default="bsv", help="the name of the chain in the database [bsv]")
    parser.add_argument("--network", metavar="NETWORK", default="mainnet", help="mainnet, testnet or regtest [mainnet]")


def mirror(args: Namespace) -> int:
    """Read to the overlay's tip, and compare."""
    import asyncio

    from indexer.chains import create
    from indexer.store import Store, Writer
    from indexer.store.source_store import SourceStore
    from overlay.app.storage import open_database

    with closing(Store(open_database(settings_of(args, writes=True)))) as store:
        with closing(Writer(store.engine)) as writer:
            chain = create(args.name, f"overlay:{args.url}?network={args.network}", SourceStore(writer))
            if store.blocks.newest(args.name) is not None and not store.is_partial(args.name):
                raise UsageError(f"the database reads {args.name} from a node: mirror into another one (--data FOLDER)")
            asyncio.run(_read(chain, store, writer))
        return _compare(args, store)


async def _read(chain: Chain, store: Store, writer: Writer) -> None:
    """Read all blocks up to the overlay's tip. Raises SourceError where it ends before."""
    from indexer.errors import SourceUnavailableError
    from indexer.sync.follower import Follower

    try:
        with progress_of("mirroring", "blocks") as progress:
            follower = Follower(
                chain, store, writer, lambda: progress(follower.progress.height or 0, follower.progress.tip or 0)
            )
            await _answered(chain, _opened(follower))
            await _answered(chain, catch_up(follower))
        if (follower.progress.height or 0) < (follower.progress.tip or 0):
            raise SourceUnavailableError(
                f"the overlay serves no blocks after {follower.progress.height or 0:,}; run this again to continue"
            )
    finally:
        await chain.close()


async def _answered(chain: Chain, work: Coroutine[Any, Any, None]) -> None:
    """Wait for work with a source. Raises SourceError, also after a minute without an answer."""
    import asyncio

    from indexer.errors import SourceUnavailableError

    task = asyncio.create_task(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_SECONDS)
            if not task.done() and chain.silence >= SILENT_SECONDS:
                raise SourceUnavailableError(f"{chain.name}: no answer for {SILENT_SECONDS:g} s; run this again later")
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _opened(follower: Follower) -> None:
    """Open, again for a minute where the overlay refuses or fails. Raises SourceError."""
    import asyncio

    from indexer.errors import SourceUnavailableError

    for failures in range(1, ATTEMPTS):
        try:
            return await follower.open()
        except SourceUnavailableError:
            await asyncio.sleep(BACKOFF.pause(failures))
    return await follower.open()


async def catch_up(follower: Follower) -> None:
    """Read on until nothing more comes. An overlay that is busy, or limits requests, is waited for as long as there is
    progress. Raises SourceError."""
    import asyncio

    from indexer.errors import SourceUnavailableError

    height: int | None = -1
    failures = 0
    while failures or height != follower.progress.height:
        if height != follower.progress.height:
            height, failures = follower.progress.height, 0
        try:
            await follower.catch_up()
            failures = 0
        except SourceUnavailableError:
            failures += 1
            if failures == ATTEMPTS:
                raise
            await asyncio.sleep(BACKOFF.pause(failures))


def _compare(args: Namespace, store: Store) -> int:
    """Compare the anchors here with the overlay's, and print the result."""
    from overlay.client import OverlayClient, calls
    from overlay.listings.topic_records import TopicRecords
    from overlay.verify.anchor_comparison import compare
    from overlay.verify.anchor_sources import RemoteAnchors, StoreAnchors
    from parsers.bitcoin.basm_answers import TOPIC

    ours = StoreAnchors(TopicRecords(store), args.name, store.chains()[args.name])
    with OverlayClient(args.url) as client:
        theirs = RemoteAnchors(args.url, lambda path, question: client.ask(calls.anchors(path, question, TOPIC)))
        comparison = compare(ours, theirs)
    counts = store.registrations.counts(args.name)
    where = on_one_line(args.url)
    say(f"{counts['live']:,} live registrations, {counts['burned']:,} burned, up to block {comparison.last:,}")
    for block in comparison.differences:
        say(
            f"block {block.ours.height:,}: {block.theirs.admitted:,} transactions admitted at {where}, and "
            f"{block.ours.admitted:,} by the laws here"
        )
    if not comparison.differences:
        say(f"the anchor is the same here and at {where}: {comparison.anchor.tac[::-1].hex()}")
    return 1 if comparison.differences else 0
