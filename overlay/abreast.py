"""Whether an index has read all that the store holds: then it tells of a listing what the store would, in a hundredth
of the time."""

from __future__ import annotations

from collections.abc import Callable


class Abreast:
    """What is known of that in one process. Safe to use from several threads."""

    def __init__(self, stamp: Callable[[], int], behind: Callable[[], int]) -> None:
        """`stamp` is that of the store, `behind` counts the changes that the index has not read; only `stamp` is asked
        without waiting."""
        self._stamp, self._behind = stamp, behind
        self._at: int | None = None

    def is_known(self) -> bool:
        """Whether nobody wrote since the index was seen to have read all; waits for nothing."""
        return self._at is not None and self._stamp() == self._at

    def look(self) -> None:
        """Find out, unless it is known; asks the store."""
        stamp = self._stamp()  # before looking: what is written meanwhile makes it another one
        if stamp != self._at and not self._behind():
            self._at = stamp
