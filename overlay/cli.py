"""The `a2b` command: its subcommands, and what every trouble means for the exit code.

0 yes, 1 a negative answer (not found, invalid, not verified), 2 wrong usage, 3 a source or server that cannot be used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from overlay.commands import check, diagnose, rebuild, run, search, show, snapshot, status
from overlay.terminal import complain, survive_any_encoding

EXIT_CODES = {
    "overlay.problems.NotFoundError": 1,
    "overlay.remote.NotThereError": 1,
    "indexer.snapshot_fields.SnapshotError": 1,
    "indexer.settings.SettingsError": 2,
    "overlay.problems.BadRequestError": 2,
    "overlay.remote.RefusedError": 2,
    "overlay.remote.RemoteError": 3,
    "overlay.services.MissingError": 3,
    "overlay.runner.AddressError": 3,
    "overlay.engines.EngineError": 3,
    "indexer.chains.SourceError": 3,
    "indexer.store.database.StoreError": 3,
    "sqlalchemy.exc.DBAPIError": 3,
    "builtins.OSError": 3,
}
"""Exit codes of the exceptions that are no mistake of this program's, by name: nothing is imported to look them up."""

app = typer.Typer(
    name="a2b",
    help="Registry of AI agents and MCP tools on Bitcoin SV: follow the chain, search, serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for _command, _name in (
    (run.up, "up"), (run.follow, "index"), (run.serve, "serve"), (search.search, "search"), (show.show, "show"),
    (show.history, "history"), (diagnose.diagnose, "diagnose"), (check.check, "check"), (status.status, "status"),
    (rebuild.rebuild, "rebuild"), (snapshot.export, "export"), (snapshot.take_over, "import"),
):  # fmt: skip
    app.command(_name)(_command)


def _version(asked: bool) -> None:
    if asked:
        from overlay.services import version

        typer.echo(f"a2b {version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (default: the process') and exit with its code."""
    survive_any_encoding()
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="a2b")
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        complain(_sentence(error))
        raise SystemExit(code) from None
    raise SystemExit(0)


def _exit_code(error: Exception) -> int | None:
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((EXIT_CODES[name] for name in names if name in EXIT_CODES), None)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(getattr(error, "orig", None) or error)
