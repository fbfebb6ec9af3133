"""The log of what is listed beside an index (`search.listed`), and the postings in memory that are made of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.engines.tantivy.state import State
from overlay.search.listed import BATCH, Gathering, Log, pack
from overlay.search.postings import Postings, TooManyError
from overlay.search.sorting import newest, seniority

if TYPE_CHECKING:
    from overlay.document import Document

log = logging.getLogger(__name__)


class Appending:
    """What one commit adds to a log, from `end` on."""

    def __init__(self, file: Log, end: int) -> None:
        self._file = file
        self._end = end
        self._gathered = Gathering()

    def go(self, place: int) -> None:
        """A document is listed no more. All that go in a commit go before others come."""
        self._gathered.go(place)

    def come(self, place: int, document: Document, levels: Mapping[str, int]) -> None:
        """A document is listed, with the levels of its terms."""
        self._gathered.come(place, newest(document), seniority(document), document, levels)
        if len(self._gathered) >= BATCH:
            self._write()

    def _write(self) -> None:
        self._end = self._file.append(pack(self._gathered.block()), self._end)
        self._gathered = Gathering()

    def finish(self) -> int:
        """Write what is left, durably; where the log ends now."""
        if self._gathered:
            self._write()
        self._file.sync()
        return self._end


class Listings:
    """Opens the logs of an index folder. Postings are held in memory from `hold` on, unless they are too many: then
    `holding` turns false."""

    def __init__(self, folder: Path, *, holding: bool = False) -> None:
        self._folder = folder
        self._writing: tuple[str, Log] | None = None
        self._reading: tuple[str, Log] | None = None
        self.holding = holding

    def hold(self) -> None:
        """Hold postings from now on."""
        self.holding = True

    def appending(self, state: State) -> Appending:
        """To write what the commit after this state changes. Raises OSError."""
        if self._writing is None or self._writing[0] != state.log:
            self._close(self._writing)
            self._writing = state.log, Log(self._folder / state.log, write=True)
        return Appending(self._writing[1], state.logged)

    def postings(self, state: State, before: State | None, held: Postings | None) -> Postings | None:
        """The postings of a commit, made of those of the one before where they are held; None where none are to be.
        Raises OSError or ValueError when the log is missing or damaged."""
        if not self.holding:
            return None
        if self._reading is None or self._reading[0] != state.log:
            self._close(self._reading)
            self._reading = state.log, Log(self._folder / state.log, write=False)
        file = self._reading[1]
        try:
            if held is not None and before is not None and before.log == state.log and before.logged <= state.logged:
                return held.after(list(file.blocks(before.logged, state.logged)))
            return Postings.read(file.blocks(0, state.logged))
        except TooManyError as error:
            log.warning(
                "%s; Tantivy answers all questions in %s from its files, which takes longer", error, self._folder
            )
            self.holding = False
            return None

    def close(self) -> None:
        """Close the files."""
        self._close(self._writing)
        self._close(self._reading)
        self._writing = self._reading = None

    def _close(self, opened: tuple[str, Log] | None) -> None:
        if opened is not None:
            opened[1].close()
