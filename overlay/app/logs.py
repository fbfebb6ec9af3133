"""The log of this program: a line for each event, for people at a terminal and as JSON elsewhere, without secrets in
either.

JSON lines have the members `time` (RFC 3339, UTC), `level`, `logger` and `message`, and where they apply `request`, the
id that the answer carries too, other members about the request, and `exception`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from indexer.masking import masked
from overlay.api.request_id import REQUEST_ID
from overlay.text.safe_text import one_line, visible, visible_in_json

if TYPE_CHECKING:
    from overlay.api.counters import Counters

WARNINGS, ERRORS = 5, 6
"""The numbers of the gauges that count lines of these levels."""

LONGEST, LONGEST_TRACEBACK = 4_096, 8_192
"""Characters of a message, and of a traceback's end, that are written: strangers' text is in them, and each is searched
for secrets."""

_TEXT = "%(asctime)s %(levelname)s %(message)s"


class TextLines(logging.Formatter):
    """Lines to read: what strangers wrote is made harmless; a traceback of our own keeps its lines."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """One line; it ends with the request's id where there is one. A `bare` one is the message alone."""
        record.message = one_line(masked(record.message[:LONGEST]))
        if getattr(record, "bare", False):
            return record.message
        line = super().formatMessage(record)
        request = REQUEST_ID.get()
        return f"{line} [{request}]" if request else line

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """The traceback, without secrets."""
        return _traceback(super().formatException(ei))


class JsonLines(logging.Formatter):
    """One JSON object a line. Members that a record carries in `members` (a mapping of JSON values) are added."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, which is pure text to any terminal."""
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()[:LONGEST]),
        }
        if request := REQUEST_ID.get():
            members["request"] = request
        members |= getattr(record, "members", {})
        if record.exc_info:
            members["exception"] = _traceback(self.formatException(record.exc_info))
        return visible_in_json(json.dumps(members, ensure_ascii=False, default=str))


def _traceback(text: str) -> str:
    return visible(masked(text[-LONGEST_TRACEBACK:]))


class _Lines(logging.Handler):
    """Hands formatted lines to a function, and counts the warnings and errors among them."""

    counters: Counters | None = None

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        if record.levelno >= logging.WARNING and _Lines.counters is not None:
            _Lines.counters.add(ERRORS if record.levelno >= logging.ERROR else WARNINGS, 1)
        try:
            self._write(self.format(record))
        except Exception:
            self.handleError(record)


def set_up_logging(
    write: Callable[[str], None] | None = None, level: int = logging.INFO, *, as_json: bool = False
) -> None:
    """Send the log of this program to standard error, or to `write`, a line each."""
    handler = _Lines(write or _to_standard_error)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def count_warnings(counters: Counters) -> None:
    """Count warnings and errors there from now on."""
    _Lines.counters = counters


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
