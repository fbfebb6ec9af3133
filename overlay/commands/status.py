"""`a2b status`: heights, lag and state hash of each chain."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from indexer.model import EVM
from indexer.settings import Settings
from overlay.commands.options import add_json, add_url, ask, command, print_answer, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.app.status_service import StatusService
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b status`."""
    parser = command(
        commands, "status", status, "Heights, lag, counts and state hashes.", "data", "database", "search",
        more="Without --url: from the local database, whichever process follows the chains.",
    )  # fmt: skip
    add_url(parser)
    add_json(parser)
    parser.add_argument(
        "--recompute", action="store_true", help="compute state hashes from all registrations, not as stored (no --url)"
    )


def status(args: Namespace) -> int:
    """Print the status of the local database, or of a running overlay."""
    if args.url and not args.recompute:
        answer = ask(args.url, lambda calls: calls.status())
    else:
        answer = _local(settings_of(args), recompute=args.recompute)
    print_answer(args, answer, show_status)
    return 0


@contextmanager
def local_service(settings: Settings) -> Iterator[StatusService]:
    """The status of the local database, with errors as they are. Raises StoreError, MissingError."""
    from overlay.app import version
    from overlay.app.status_service import StatusService
    from overlay.app.storage import MissingError, open_index, open_store

    with closing(open_store(settings, create=False)) as store, ExitStack() as opened:
        engine = None
        with suppress(MissingError):
            engine = opened.enter_context(closing(open_index(settings, create=False, for_search=False)))
        yield StatusService(settings, store, engine, version(), shows_errors=True)


def _local(settings: Settings, *, recompute: bool) -> dict[str, Any]:
    with local_service(settings) as service:
        for name in service.progress:
            if recompute:
                service.recompute_state_hash(name)
            else:
                service.update_state_hash(name)
        return service.status()


def show_status(answer: Mapping[str, Any]) -> None:
    for chain in answer["chains"]:
        _show_chain(chain, answer.get("stateHash", {}).get(chain["name"]))
    if answer.get("degraded"):
        say(f"degraded: {on_one_line(', '.join(answer['degraded']))}")
    failed = answer.get("failed") or {}
    if failed.get("count"):
        names = ", ".join(f"{on_one_line(item['id'], 80)} ({on_one_line(item['reason'])})" for item in failed["first"])
        say(f"left out because they failed: {failed['count']:,}; {names}")
    say("listings: " + ", ".join(f"{count:,} {word}" for word, count in answer["listings"].items()))
    if pointers := [f"{count:,} {word}" for word, count in answer.get("pointers", {}).items() if count]:
        say(f"pointed at: {', '.join(pointers)}")
    for line in _rates(answer.get("rates")):
        say(line)
    checked = answer.get("integrity")
    if checked:
        detail = f": {on_one_line(checked['detail'])}" if checked["detail"] else ""
        say(f"database check: {checked['state']}, {checked['checkedAt']}{detail}")
    if answer.get("index"):
        _show_index(answer["index"])
    else:
        say("index: none")


def _show_chain(chain: Mapping[str, Any], hashed: Mapping[str, Any] | None) -> None:
    height = "nothing yet" if chain["height"] is None else f"block {chain['height']:,}"
    lag = f", {chain['lag']:,} behind the tip" if chain.get("lag") is not None else ""
    reorgs = f", {chain['reorgs']} reorgs" if chain.get("reorgs") is not None else ""
    say(f"{chain['name']}  {on_one_line(chain['chain'])}  {chain['state']}: {height}{lag}{reorgs}")
    if chain.get("mempool") is not None:
        say(f"    mempool     {chain['mempool']:,} transactions")
    if chain.get("hash"):
        say(f"    block hash  {chain['hash']}")
    if hashed:
        digest = hashed["hash"] or f"not known: {_why_unknown(chain)}"
        say(f"    state hash  {digest} (block {hashed['height']:,})")
        if pointers := hashed.get("pointers"):
            say(f"    pointers    {pointers['hash']} ({pointers['count']:,})")
    if chain.get("readTwice") is not None:
        say(f"    read twice  up to block {chain['readTwice']:,}")
    for name, word in (("followerSeenAt", "seen"), ("lastBlockAt", "last block")):
        if chain.get(name):
            say(f"    {word:<12}{on_one_line(chain[name])}")
    if chain.get("error"):
        say(f"    error       {on_one_line(chain['error'])}")
    if chain.get("note"):
        say(f"    note        {on_one_line(chain['note'])}")
    if chain.get("caught"):
        say(f"    refused     {chain['caught']:,} invalid answers of the source, or ranges of its files")
    if peers := chain.get("peers"):
        say(f"    peers       {peers['connected']:,} connected, in {peers['networks']:,} networks")
    for source in chain.get("sources", ()):
        reached = "nothing yet" if source.get("height") is None else f"block {source['height']:,}"
        why = f": {on_one_line(source['error'])}" if source.get("error") else ""
        say(f"    source      {on_one_line(source['source'])}  {source['state']}, {reached}{why}")
    if chain.get("sourcesDisagree"):
        say(f"    disagree    {on_one_line(chain['sourcesDisagree'])}")
    for warning in chain.get("warnings", ()):
        if warning != chain.get("sourcesDisagree"):
            say(f"    warning     {on_one_line(warning)}")


def _show_index(index: Mapping[str, Any]) -> None:
    backlog = f", {index['behind']:,} changes behind" if index["behind"] else ""
    progress = index.get("rebuilding")
    rebuilding = f", rebuilding: {progress['done']:,} of {progress['of']:,} registrations" if progress else ""
    outdated = ", of another release or other systems: rebuilt when a server starts" if index.get("outdated") else ""
    compiling = ", being compiled: searches are slow, or refused, until then" if index.get("compiling") else ""
    meaning = ", with meaning" if index.get("meaning") else ""
    say(f"index: {index['engine']}{meaning}, change {index['seq']:,}{backlog}{outdated}{rebuilding}{compiling}")
    if index.get("damage"):
        say(f"    damaged, and to be rebuilt: {on_one_line(index['damage'])}")
    if index.get("error"):
        say(f"    not written now: {on_one_line(index['error'])}")


def _why_unknown(chain: Mapping[str, Any]) -> str:
    """Why a chain has no state hash."""
    if not chain.get("complete", True):
        return "not everything was read; see the note"
    return "no block was read twice yet" if chain["chain"].startswith(EVM) else "an update is undecided"


def _rates(rates: Mapping[str, Any] | None) -> Iterator[str]:
    """The exchange rates in use, and every feed."""
    if rates is None:
        return
    usable = rates["source"] and rates["age"] is not None
    yield f"rates: {on_one_line(rates['source'])}, {rates['age']:,} s old" if usable else "rates: none that can be used"
    for feed in rates["feeds"]:
        age = "no quote accepted yet" if feed["age"] is None else f"{feed['age']:,} s old"
        why = f": {on_one_line(feed['error'])}" if feed.get("error") else ""
        yield f"    feed        {on_one_line(feed['base'])} {on_one_line(feed['source'])}  {age}{why}"
        for refused in feed.get("refused", ()):
            names = on_one_line(", ".join(refused["currencies"]))
            yield f"        not counted: {names}: {on_one_line(refused['detail'])}"
