"""`a2b verify`: check a listing and its proof without trusting the server."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from indexer.settings import Settings
from overlay.commands.options import UsageError, add_json, add_url, command, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import progress_of, say, say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands
    from overlay.listings.repository import ListingRepository
    from overlay.verify import ListingSource, VerificationReport
    from overlay.verify.anchor_sources import AnchorSource
    from overlay.verify.completeness import Completeness
    from overlay.verify.trusted_source import TrustedSource


def add(commands: Commands) -> None:
    """Add `a2b verify`."""
    parser = command(
        commands, "verify", verify,
        "Check a listing and its proof here, without trusting the server. Exit code 1 when it is not proved.",
        "data", "database", "fetch_resolve", "fetch_ca_file", "ipfs_gateway",
        more="A block counts when headers link it to a packaged checkpoint, or when your own source has it. Whether "
        "there is a newer revision, only your own node can verify. The listing's domain is queried, too.",
    )  # fmt: skip
    parser.add_argument("id", metavar="ID", help="<txid>_<output>, with #<server> for one of several of a tool")
    parser.add_argument(
        "--headers", metavar="URL|FILE",
        help="your own source of headers: a node's RPC (http://user:password@host:port, or ?cookie=FILE) or a file",
    )  # fmt: skip
    parser.add_argument(
        "--chain", metavar="CAIP2", help="the chain to expect it on, such as bsv:mainnet [any main network]"
    )
    parser.add_argument("--offline", action="store_true", help="do not query the listing's domain")
    parser.add_argument(
        "--complete", action="store_true",
        help="also compare block by block (BRC-136) what was admitted with --against, or else with the local data",
    )  # fmt: skip
    parser.add_argument(
        "--against", metavar="URL", action="append", default=[], help="another overlay to compare with; may be repeated"
    )
    add_url(parser)
    add_json(parser)


def verify(args: Namespace) -> int:
    """Print the proved and the unproved statements."""
    from overlay.verify.trusted_source import open_source

    trusted = open_source(args.headers) if args.headers else None
    report = _remote(args, trusted) if args.url else _local(settings_of(args), args, trusted)
    if args.json:
        say_json(report.as_json())
    else:
        _show(report)
    return 1 if report.missing else 0


def _remote(args: Namespace, trusted: TrustedSource | None) -> VerificationReport:
    from overlay.client import OverlayClient
    from overlay.client.listing_source import ClientSource

    with ExitStack() as stack:
        client = stack.enter_context(OverlayClient(args.url))
        source = ClientSource(lambda call: client.ask(call, is_checked=False))
        completeness = None
        if args.complete:
            anchors = _remote_anchors(args.url, stack)
            local = [] if args.against else [_local_anchors(stack.enter_context(_repository(settings_of(args))))]
            completeness = _completeness(args, stack, anchors, *local)
        return _check(source, args, args.chain, trusted, completeness)


def _local(settings: Settings, args: Namespace, trusted: TrustedSource | None) -> VerificationReport:
    from overlay.listings.local_source import LocalSource

    with ExitStack() as stack:
        repository = stack.enter_context(_repository(settings))
        source = LocalSource(repository)
        completeness = _completeness(args, stack, _local_anchors(repository)) if args.complete else None
        # the user's own settings say which chain is meant, a network for tests too
        expected = args.chain or source.listing(args.id).get("caip2")
        return _check(source, args, expected, trusted, completeness)


@contextmanager
def _repository(settings: Settings) -> Iterator[ListingRepository]:
    from overlay.app.storage import open_store
    from overlay.listings.repository import ListingRepository

    with closing(open_store(settings, create=False)) as store:
        yield ListingRepository(store)


def _completeness(args: Namespace, stack: ExitStack, first: AnchorSource, *others: AnchorSource) -> Completeness:
    from overlay.verify.completeness import Completeness

    against = [*(_remote_anchors(url, stack) for url in args.against), *others]
    if not against:
        raise UsageError("--complete compares two overlays: name another one with --against URL")
    return Completeness(first, against)


def _remote_anchors(url: str, stack: ExitStack) -> AnchorSource:
    from overlay.client import NotThereError, OverlayClient, RefusedError, calls
    from overlay.verify.anchor_sources import RemoteAnchors
    from overlay.verify.server_answer import NotCheckedError
    from parsers.bitcoin.basm_answers import TOPIC

    client = stack.enter_context(OverlayClient(url))

    def post(path: str, question: Mapping[str, Any]) -> Any:
        try:
            return client.ask(calls.anchors(path, question, TOPIC), is_checked=False)
        except NotThereError:
            raise NotCheckedError(f"{url} serves no anchors (BRC-136)") from None
        except RefusedError as error:
            raise NotCheckedError(f"{url} refuses to answer about anchors: {error}") from None

    return RemoteAnchors(url, post)


def _local_anchors(repository: ListingRepository) -> AnchorSource:
    from overlay.verify.anchor_sources import StoreAnchors

    chain = repository.topic.anchored_chain()
    if chain is None:
        raise UsageError("the local data holds no BSV chain to compare with: name another overlay with --against URL")
    return StoreAnchors(repository.topic, *chain)


def _check(
    source: ListingSource, args: Namespace, expected: str | None, trusted: TrustedSource | None,
    completeness: Completeness | None,
) -> VerificationReport:  # fmt: skip
    from overlay import verify
    from overlay.client.listing_source import ClientSource
    from overlay.verify.domains import Internet

    hosts = None if args.offline else Internet(settings_of(args))
    with progress_of("headers", "checked") as progress:
        return verify.verify(
            source, args.id, trusted=trusted, hosts=hosts, expected=expected, progress=progress,
            completeness=completeness, receipts=source if isinstance(source, ClientSource) else None,
        )  # fmt: skip


def _show(report: VerificationReport) -> None:
    if report.note:
        say(on_one_line(report.note))
    say(f"{on_one_line(report.id)} on {on_one_line(report.chain)}")
    for step in report.steps:
        say(f"{step.step}: {step.outcome}")
        say(f"    {on_one_line(step.detail)}")
    if report.not_proved_members:
        say(f"members not proved: {', '.join(map(on_one_line, report.not_proved_members))}")
    say(f"not proved: {', '.join(report.missing)}" if report.missing else "verified")
