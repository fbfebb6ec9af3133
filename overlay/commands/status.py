"""`a2b status`: where every chain stands."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import add_json, add_url, command, settings
from overlay.commands.search import one
from overlay.terminal import say, say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """The operator's command."""
    parser = command(
        commands, "status", status, "Heights, lag, counts and state hashes.", "data", "database", "search",
        more="Without --url: as the local database says, whoever follows the chains.",
    )  # fmt: skip
    add_url(parser)
    add_json(parser)


def status(asked: Namespace) -> int:
    """Where everything stands."""
    if asked.url:
        from overlay.remote import Remote

        found = Remote(asked.url).status()
    else:
        found = _local(settings(asked))
    if asked.json:
        say_json(found)
    else:
        _show(found)
    return 0


def _local(told: Settings) -> dict[str, Any]:
    from overlay.services import MissingError, open_index, open_store, version
    from overlay.standing import Standing

    store = open_store(told, make=False)
    try:
        try:
            engine = open_index(told, make=False)
        except MissingError:
            engine = None
        try:
            standing = Standing(told, store, engine, version())
            for progress in standing.progress.values():
                standing.hash(progress)
            return standing.status()
        finally:
            if engine is not None:
                engine.close()
    finally:
        store.engine.dispose()


def _show(found: Mapping[str, Any]) -> None:
    for chain in found["chains"]:
        height = "nothing yet" if chain["height"] is None else f"block {chain['height']:,}"
        lag = f", {chain['lag']:,} behind the tip" if chain.get("lag") is not None else ""
        reorgs = f", {chain['reorgs']} reorgs" if chain.get("reorgs") is not None else ""
        say(f"{chain['name']}  {one(chain['chain'])}  {chain['state']}: {height}{lag}{reorgs}")
        if chain.get("mempool") is not None:
            say(f"    mempool     {chain['mempool']:,} transactions")
        if chain.get("hash"):
            say(f"    block hash  {chain['hash']}")
        told = found.get("stateHash", {}).get(chain["name"])
        if told:
            why = "an update is undecided" if chain.get("complete", True) else "not everything was read; see the note"
            digest = told["hash"] or f"not known: {why}"
            say(f"    state hash  {digest} (block {told['height']:,})")
        if chain.get("error"):
            say(f"    error       {one(chain['error'])}")
        if chain.get("note"):
            say(f"    note        {one(chain['note'])}")
        if chain.get("caught"):
            say(f"    refused     {chain['caught']:,} answers of the source that cannot be true")
        for source in chain.get("sources", ()):
            at = "nothing yet" if source.get("height") is None else f"block {source['height']:,}"
            why = f": {one(source['error'])}" if source.get("error") else ""
            say(f"    source      {one(source['source'])}  {source['state']}, {at}{why}")
        for warning in chain.get("warnings", ()):
            say(f"    warning     {one(warning)}")
    say("listings: " + ", ".join(f"{count:,} {word}" for word, count in found["listings"].items()))
    if pointers := [f"{count:,} {word}" for word, count in found.get("pointers", {}).items() if count]:
        say(f"pointed at: {', '.join(pointers)}")
    for line in _rates(found.get("rates")):
        say(line)
    index = found.get("index")
    if index:
        behind = f", {index['behind']:,} changes behind" if index["behind"] else ""
        renewal = index.get("renewal")
        anew = f", made anew: {renewal['done']:,} of {renewal['of']:,} registrations" if renewal else ""
        say(f"index: {index['engine']}, change {index['seq']:,}{behind}{anew}")
    else:
        say("index: none")


def _rates(told: Mapping[str, Any] | None) -> Iterator[str]:
    """The exchange rates in use, and every feed."""
    if told is None:
        return
    usable = told["source"] and told["age"] is not None
    yield f"rates: {one(told['source'])}, {told['age']:,} s old" if usable else "rates: none that may be used"
    for feed in told["feeds"]:
        age = "never believed" if feed["age"] is None else f"{feed['age']:,} s old"
        why = f": {one(feed['error'])}" if feed.get("error") else ""
        yield f"    feed        {one(feed['base'])} {one(feed['source'])}  {age}{why}"
