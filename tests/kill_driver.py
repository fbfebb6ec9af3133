"""A process to be killed: it brings a database to the tip of a folder of block files, and says when it begins.

    python -m tests.kill_driver FOLDER DATABASE [BLOCKS_A_WRITE]

It prints `ready` when the source and the database are open and the loops loaded, and `done` at the tip.
"""

from __future__ import annotations

import asyncio
import sys

from indexer.chains import Chain
from indexer.chains.files import create
from indexer.store import Store, Writer, connect
from indexer.sync import catchup
from indexer.sync import follower as follow
from parsers.bitcoin import block


async def run(folder: str, database: str) -> None:
    """Index what the folder holds, and end."""
    engine = connect(f"sqlite:///{database}")
    writer = Writer(engine)
    chain = create("demo", f"files:{folder}")
    follower = follow.Follower(chain, Store(engine), writer)
    await follower.open()
    await warm_up(chain)
    print("ready", flush=True)
    await follower.catch_up()
    writer.close()
    engine.dispose()
    print("done", flush=True)


async def warm_up(chain: Chain) -> None:
    """Load the compiled loops, which takes longer than all the rest."""
    async for _, data in chain.blocks(0, 0):
        block.worth_reading(data, block.WatchedOutpoints())
        block.merkle_root(data, block.tx_offsets(data))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        catchup.BATCH_BLOCKS = int(sys.argv[3])
    asyncio.run(run(sys.argv[1], sys.argv[2]))
