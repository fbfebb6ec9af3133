"""`a2b stats`: what is searched for, and what finds nothing."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from overlay.api.shared_tables import KEPT_DAYS
from overlay.commands.options import UsageError, add_json, command, print_answer, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands, "stats", stats, "Print how many searches there were each day, how many of them found nothing, and "
        "with which words.",
        "data", "database",
        more="Servers count with A2B_STATISTICS=on; a word is counted from the fifth client of a day on that searches "
        "for it.",
    )  # fmt: skip
    parser.add_argument("--days", metavar="N", type=int, default=7, help=f"the last N days, up to {KEPT_DAYS} [7]")
    add_json(parser)


def stats(args: Namespace) -> int:
    """Print."""
    from overlay.app.search_report import search_report
    from overlay.app.storage import open_store

    if not 1 <= args.days <= KEPT_DAYS:
        raise UsageError(f"--days is {args.days}, and must be from 1 to {KEPT_DAYS}")
    with closing(open_store(settings_of(args), create=False)) as store:
        report = search_report(store.search_counts, args.days)
    print_answer(args, report, _show)
    return 0


def _show(report: dict[str, Any]) -> None:
    if not report["days"]:
        say("nothing is counted in these days: servers count with A2B_STATISTICS=on")
        return
    say("day         searches  nothing  by meaning only  opened")
    for row in report["days"]:
        counts = f"{row['searches']:8}  {row['nothing']:7}  {row['byMeaning']:15}  {row['opened']:6}"
        say(f"{row['day']}  {counts}")
    if report["words"]:
        say("words that found nothing, or by their meaning only, of five clients a day or more:")
    for row in report["words"]:
        say(f"{row['searches']:10}  {row['word']}")
