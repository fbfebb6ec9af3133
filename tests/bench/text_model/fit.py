"""The table: a row for each word piece, so that the sums of rows do what the teacher does.

1. Each piece's own teacher vector, reduced to 128 dimensions, times a / (a + p) (p: its share of the listings' pieces).
2. Ridge regression (conjugate gradients): the sum of a text's rows, over the root of its length, is the teacher's
   vector.
3. Adam on batches of questions and listings: the softmax over a batch's listings (a right one, some among the teacher's
   best 32, those of the other questions) becomes the teacher's, mixed with the right ones; each text stays near the
   teacher's direction.

Nothing but the sums is learnt, so a row's length is the weight of its piece.
"""

from __future__ import annotations

import functools
import re
import sys
import time
import unicodedata
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlay.search.stop_words import ENGLISH
from tests.bench.text_model.teach import read, unit

SIZE = 128
OPTIONS = {
    "sets": "", "epochs": 8, "batch": 512, "hard": 3, "lr": 0.01, "pull": 0.5, "right": 0.3, "sharp": 30.0,
    "scale": 20.0, "direction": 2.0, "power": 0.7, "ridge": 1.0, "sif": 1e-3, "seed": 1,
}  # fmt: skip
"""Names and defaults."""

Options = dict[str, Any]
_WORD = re.compile(r"\w+|[^\w\s]|_")
_WARM_UP = 50  # steps
_FREQUENT = 20  # occurrences of a piece in the listings


class Backend(NamedTuple):
    """numpy and scipy, or cupy on a GPU: arrays, sparse matrices, and arrays back as numpy's."""

    xp: Any
    csr: Any
    get: Any


class Question(NamedTuple):
    """A question: its index, its text, the listings that meet it, its source."""

    index: int
    text: int
    right: list[int]
    source: str


def backend() -> Backend:
    """cupy where it works."""
    try:
        import cupy
        from cupyx.scipy.sparse import csr_matrix

        cupy.zeros(1)
    except Exception:
        return Backend(np, lambda matrix: matrix, lambda array: array)
    return Backend(cupy, csr_matrix, cupy.asnumpy)


def pieces_of(texts: Sequence[str], vocabulary: Sequence[str], most: int = 128) -> list[list[int]]:
    """The rows of each text, as `overlay.search.text_vectors` reads it."""
    numbers = {piece: number for number, piece in enumerate(vocabulary)}

    @functools.cache
    def pieces(word: str) -> tuple[int, ...]:
        rows, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = numbers.get(word[start:end] if not start else "##" + word[start:end])
                if number is not None:
                    rows.append(number)
                    start = end
                    break
            else:
                return (100,)
        return tuple(rows)

    def plain(text: str) -> str:
        if text.isascii():
            return text.lower()
        signs = unicodedata.normalize("NFD", text.lower())
        return "".join(sign for sign in signs if unicodedata.category(sign) != "Mn")

    return [
        [number for word in _WORD.findall(plain(text).replace("_", " _ ")) for number in pieces(word)][:most]
        for text in texts
    ]


def without_stop_words(text: str, stop: Set[str]) -> str:
    """The text without stop words, unless fewer than two words are left."""
    words = [
        word
        for word in text.split()
        if re.sub(r"[^\w]", "", word.replace("'", "").replace("\u2019", "")).lower() not in stop
    ]
    return " ".join(words) if len(words) > 1 else text


def conjugate(rows: Any, transposed: Any, goals: Any, table: Any, ridge: float, steps: int = 30) -> Any:
    """The table that solves the ridge regression, from a first one on."""
    residual = transposed @ (goals - rows @ table)
    change, direction, squares = 0 * table, residual.copy(), (residual * residual).sum(0)
    for _ in range(steps):
        image = transposed @ (rows @ direction) + ridge * direction
        length = squares / ((direction * image).sum(0) + 1e-12)
        change = change + length * direction
        residual = residual - length * image
        new = (residual * residual).sum(0)
        direction = residual + new / (squares + 1e-12) * direction
        squares = new
    return table + change


class Fit:
    """The data of a fit: `counts` has a row for each text with the number of its pieces, then for each question without
    stop words; `vectors` are the teacher's, `goals` these reduced."""

    def __init__(self, folder: Path, stop: Set[str], options: Options) -> None:
        self.options, self.backend, self.began = options, backend(), time.time()
        self.chance = np.random.default_rng(options["seed"])
        data, teacher = read(folder), np.load(folder / "teacher.npz")
        self.best, self.words, self.tokens = teacher["best"], teacher["words"], teacher["tokens"]
        self.questions = [
            Question(index, text, right, source)
            for index, (text, right, source) in enumerate(data["questions"])
            if not source.startswith("set:") or source[4:] in options["sets"].split(",")
        ]
        self.asking = sorted({question.text for question in self.questions})
        self.listings = np.array(data["docs"])
        vectors = unit(teacher["texts"].astype(np.float32))
        self.bare_row = {text: len(vectors) + number for number, text in enumerate(self.asking)}
        self.vectors = np.concatenate([vectors, vectors[self.asking]])
        bare = [without_stop_words(data["texts"][text], stop) for text in self.asking]
        self.counts = self._counts(data["texts"] + bare)
        self.mean = self.vectors[self.listings].mean(0)
        covariance = np.cov((self.vectors[self.listings][::2] - self.mean).T)
        self.basis = np.linalg.eigh(covariance)[1][:, ::-1][:, :SIZE].astype(np.float32)
        self.goals = unit((self.vectors - self.mean) @ self.basis)

    def _counts(self, texts: Sequence[str]) -> Any:
        import scipy.sparse as sparse

        pieces = pieces_of(texts, bytes(self.words).decode().split("\n"))
        lengths = [len(numbers) for numbers in pieces]
        flat = np.fromiter((number for numbers in pieces for number in numbers), np.int32, sum(lengths))
        ends = np.r_[0, np.cumsum(lengths)]
        counts = sparse.csr_matrix((np.ones(len(flat), np.float32), flat, ends), shape=(len(pieces), len(self.tokens)))
        counts.sum_duplicates()
        return counts

    def seconds(self) -> str:
        return f"{time.time() - self.began:.0f} s"

    def regression(self) -> Any:
        """The first two steps."""
        import scipy.sparse as sparse

        xp, csr, get = self.backend
        frequencies = np.asarray(self.counts[self.listings].sum(0)).ravel()
        shares = (frequencies + 1) / (frequencies.sum() + len(frequencies))
        alone = unit(self.tokens.astype(np.float32))
        smooth = self.options["sif"]
        table = (alone - alone.mean(0)) @ self.basis * (smooth / (smooth + shares))[:, None].astype(np.float32)
        right = {listing for question in self.questions for listing in question.right}
        texts = sorted(set(self.asking) | set(self.listings.tolist()) | right)
        rows = np.array(texts + [self.bare_row[text] for text in self.asking])
        rows = rows[self.counts.indptr[rows + 1] > self.counts.indptr[rows]]
        lengths = np.asarray(self.counts[rows].sum(1)).ravel()
        scaled = sparse.diags(1 / np.sqrt(lengths)).astype(np.float32) @ self.counts[rows]
        sums = scaled @ table
        table = table * ((sums * self.goals[rows]).sum() / (sums * sums).sum())
        matrices = csr(scaled), csr(scaled.T.tocsr())
        goals, first = xp.asarray(self.goals[rows]), xp.asarray(table.astype(np.float32))
        solved = conjugate(*matrices, goals, first, self.options["ridge"]).astype(xp.float32)
        solved = solved / xp.sqrt((solved * solved).sum(1))[xp.asarray(frequencies > _FREQUENT)].mean()
        cosine = (unit(np.asarray(scaled[::50] @ get(solved))) * self.goals[rows[::50]]).sum(1).mean()
        print(f"ridge: {len(rows)} texts, cosine {float(cosine):.3f}, {self.seconds()}", flush=True)
        return solved

    def batch(self, weights: Any) -> tuple[Any, Any, Any]:
        """Rows of questions and of listings, and for each pair whether the listing is right."""
        chosen = self.chance.choice(len(self.questions), self.options["batch"], p=weights)
        rows, listings = [], []
        for number in chosen:
            question = self.questions[number]
            best = self.listings[self.best[question.index]]
            rows.append(self.bare_row[question.text])
            listings.append(self.chance.choice(question.right) if question.right else best[0])
            listings += self.chance.choice(best, self.options["hard"], replace=False).tolist()
        columns = np.unique(listings)
        column_of = {listing: number for number, listing in enumerate(columns.tolist())}
        is_right = np.zeros((len(rows), len(columns)), np.float32)
        for row, number in enumerate(chosen):
            for listing in self.questions[number].right:
                if listing in column_of:
                    is_right[row, column_of[listing]] = 1
        return np.array(rows), columns, is_right

    def gradient(self, table: Any, rows: Any, columns: Any, is_right: Any) -> tuple[Any, float]:
        """The gradient of a batch's loss, and its cross-entropy."""
        (xp, csr, _), options = self.backend, self.options
        number = is_right.sum(1, keepdims=True)
        mix, right = xp.asarray(options["right"] * (number > 0)), xp.asarray(is_right / np.maximum(number, 1))
        counts = self.counts[rows], self.counts[columns]
        sums = [csr(part) @ table for part in counts]
        lengths = [xp.maximum(xp.sqrt((part * part).sum(1, keepdims=True)), 1e-6) for part in sums]
        asking, listed = (part / length for part, length in zip(sums, lengths, strict=True))
        teacher = softmax(xp, options["sharp"] * (xp.asarray(self.vectors[rows]) @ xp.asarray(self.vectors[columns]).T))
        student = softmax(xp, options["scale"] * (asking @ listed.T))
        goal = mix * right + (1 - mix) * teacher
        error = (student - goal) * (options["scale"] / len(rows))
        pulls = [options["direction"] / len(part) * xp.asarray(self.goals[part]) for part in (rows, columns)]
        gradients = error @ listed - pulls[0], error.T @ asking - pulls[1]
        total = sum(
            csr(part.T.tocsr()) @ ((slope - (slope * vector).sum(1, keepdims=True) * vector) / length)
            for part, slope, vector, length in zip(counts, gradients, (asking, listed), lengths, strict=True)
        )
        return total, float(-(goal * xp.log(student + 1e-9)).sum(1).mean())

    def adam(self, table: Any) -> Any:
        """The third step."""
        xp, options, first = self.backend.xp, self.options, table.copy()
        of_source = {one: sum(question.source == one for question in self.questions) for one in self._sources()}
        weights = np.array([of_source[question.source] ** (options["power"] - 1) for question in self.questions])
        weights /= weights.sum()
        steps = options["epochs"] * len(self.questions) // options["batch"]
        mean, square, losses = xp.zeros_like(table), xp.zeros_like(table), []
        for step in range(steps):
            slope, loss = self.gradient(table, *self.batch(weights))
            mean = 0.9 * mean + 0.1 * slope
            square = 0.999 * square + 0.001 * slope * slope
            rate = options["lr"] * min(1, (step + 1) / _WARM_UP) * (1 - step / steps)
            corrected = (mean / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1)))
            table = (
                table
                - rate * (corrected[0] / (xp.sqrt(corrected[1]) + 1e-8))
                - rate * options["pull"] * (table - first)
            )
            losses.append(loss)
            if step % 200 == 199 or step == steps - 1:
                print(f"step {step + 1} of {steps}: {np.mean(losses[-200:]):.4f}, {self.seconds()}", flush=True)
        return table

    def _sources(self) -> set[str]:
        return {question.source for question in self.questions}

    def write(self, table: Any, out: str) -> None:
        """The table as bytes with a scale for each row."""
        rows = self.backend.get(table)
        scales = np.maximum(np.abs(rows).max(1) / 127, 1e-4).astype(np.float16)
        numbers = np.clip(np.round(rows / scales.astype(np.float32)[:, None]), -127, 127).astype(np.int8)
        np.savez_compressed(out, rows=numbers, scales=scales, words=self.words)


def softmax(xp: Any, values: Any) -> Any:
    """By row."""
    powers = xp.exp(values - values.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def main() -> None:
    """Fit and write the table."""
    changed = dict(option.split("=", 1) for option in sys.argv[3:])
    options = {name: type(value)(changed.get(name, value)) for name, value in OPTIONS.items()}
    fit = Fit(Path(sys.argv[1]), ENGLISH, options)
    fit.write(fit.adam(fit.regression()), sys.argv[2])


if __name__ == "__main__":
    main()
