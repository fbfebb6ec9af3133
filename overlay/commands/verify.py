"""`a2b verify`: a listing and its proof, checked here and without trusting who tells."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import add_json, add_url, command, settings
from overlay.commands.search import one
from overlay.terminal import counting, say, say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.verifying import Report, Told
    from overlay.verifying.own import OwnSource


def add(commands: Commands) -> None:
    """The sceptic's command."""
    parser = command(
        commands, "verify", verify,
        "Check a listing and its proof here, without trusting the server. Exit code 1 when it is not proved.",
        "data", "database", "fetch_resolve", "fetch_ca_file", "ipfs_gateway",
        more="A block counts when headers link it to a packaged checkpoint, or when your own source has it. Whether "
        "there is a newer revision only a node of your own can say. The domain of the listing is asked.",
    )  # fmt: skip
    parser.add_argument("id", metavar="ID", help="<txid>_<output>, with #<server> for one of several of a tool")
    parser.add_argument(
        "--headers", metavar="URL|FILE",
        help="your own source of headers: a node's RPC (http://user:password@host:port, or ?cookie=FILE) or a file",
    )  # fmt: skip
    parser.add_argument(
        "--chain", metavar="CAIP2", help="the chain to expect it on, such as bsv:mainnet [any main network]"
    )
    parser.add_argument("--offline", action="store_true", help="do not ask the listing's domain")
    add_url(parser)
    add_json(parser)


def verify(asked: Namespace) -> int:
    """What is proved, and what is not."""
    from overlay.verifying.own import open_source

    own = open_source(asked.headers) if asked.headers else None
    report = _remote(asked, own) if asked.url else _local(settings(asked), asked, own)
    if asked.json:
        say_json(report.as_json())
    else:
        _show(report)
    return 1 if report.missing else 0


def _remote(asked: Namespace, own: OwnSource | None) -> Report:
    from overlay.remote import Remote

    return _check(Remote(asked.url, checks_shape=False), asked, asked.chain, own)


def _local(told: Settings, asked: Namespace, own: OwnSource | None) -> Report:
    from overlay.catalogue import Catalogue
    from overlay.services import open_store

    store = open_store(told, make=False)
    try:
        source = _Local(Catalogue(store))
        # the user's own settings say which chain is meant, a network for tests too
        expected = asked.chain or source.listing(asked.id).get("caip2")
        return _check(source, asked, expected, own)
    finally:
        store.engine.dispose()


def _check(source: Told, asked: Namespace, expected: str | None, own: OwnSource | None) -> Report:
    from overlay import verifying
    from overlay.verifying.domains import Internet

    hosts = None if asked.offline else Internet(settings(asked))
    with counting("headers", "checked") as progress:
        return verifying.verify(source, asked.id, own=own, hosts=hosts, expected=expected, progress=progress)


class _Local:
    """The local store, as a running overlay would answer."""

    def __init__(self, catalogue: Any) -> None:
        self._catalogue = catalogue

    def listing(self, id_: str) -> Any:
        from overlay.api.listing_api import one as listing

        return listing(self._catalogue, id_)

    def card(self, id_: str) -> bytes:
        from overlay.api.listing_api import card_of

        return card_of(self._catalogue, id_)[1]

    def proof(self, id_: str, first: int | None = None) -> Any:
        from overlay.api.proof_api import answer

        return answer(self._catalogue, id_, first)


def _show(report: Report) -> None:
    say(f"{one(report.id)} on {one(report.chain)}")
    for step in report.steps:
        say(f"{step.step}: {step.outcome}")
        say(f"    {one(step.detail)}")
    if report.not_proved_members:
        say(f"members not proved: {', '.join(map(one, report.not_proved_members))}")
    say(f"not proved: {', '.join(report.missing)}" if report.missing else "verified")
