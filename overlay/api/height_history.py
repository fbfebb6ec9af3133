"""The heights and lags of the chains in the last day, sampled in memory for the status page."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

SAMPLE_SECONDS = 60
DAY_SECONDS = 86_400
MAX_SAMPLES = DAY_SECONDS // SAMPLE_SECONDS + 1


class HeightSample(NamedTuple):
    """The newest block of a chain at a time (seconds since 1970), and how many blocks its source had more; None where
    that is not known."""

    time: int
    height: int | None
    lag: int | None


class HeightHistory:
    """The samples of each chain since the start of the process, of a day at most."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[HeightSample]] = {}

    def add(self, chain: str, sample: HeightSample) -> None:
        """Keep a sample, and drop those that are older than a day, or in the future: the clock was set back."""
        samples = self._samples.setdefault(chain, deque(maxlen=MAX_SAMPLES))
        while samples and samples[-1].time >= sample.time:
            samples.pop()
        samples.append(sample)
        while samples[0].time < sample.time - DAY_SECONDS:
            samples.popleft()

    def samples(self, chain: str) -> Sequence[HeightSample]:
        """The samples of a chain, oldest first."""
        return tuple(self._samples.get(chain, ()))
