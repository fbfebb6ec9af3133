"""The teacher's vectors of all texts and of single word pieces, reduced to 256 dimensions, and its best listings for
each question."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

DIMENSIONS, BEST = 256, 32
TEACHER_SIZE, MOST_PIECES, PIECES = 384, 128, 30_522
_BEGIN, _END = 101, 102
_BATCH, _QUESTIONS = 1_024, 2_048


def read(folder: Path) -> dict[str, Any]:
    """The content of the file that `collect` wrote."""
    with lzma.open(folder / "train.json.xz", "rt") as file:
        content: dict[str, Any] = json.load(file)
        return content


def unit(rows: Floats) -> Floats:
    """Rows of length 1."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def packed(rows: Floats) -> npt.NDArray[np.int8]:
    """Rows whose largest number is 127."""
    return np.round(rows / np.abs(rows).max(1, keepdims=True) * 127).astype(np.int8)


def encoder(minilm: Path, device: str) -> Callable[[Sequence[list[int]]], Floats]:
    """The mean of the last layer over the pieces of each text."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    net = BertModel(BertConfig(**json.loads((minilm / "config.json").read_text())), add_pooling_layer=False)
    net.load_state_dict(load_file(minilm / "model.safetensors"), strict=False)
    net = net.to(device).eval()

    def encode(texts: Sequence[list[int]]) -> Floats:
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        vectors = np.zeros((len(texts), TEACHER_SIZE), np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), _BATCH):
                part = order[start : start + _BATCH]
                shape = len(part), max(len(texts[index]) for index in part)
                pieces, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
                for row, index in enumerate(part):
                    pieces[row, : len(texts[index])] = torch.tensor(texts[index])
                    mask[row, : len(texts[index])] = 1
                pieces, mask = pieces.to(device), mask.to(device)
                hidden = net(input_ids=pieces, attention_mask=mask).last_hidden_state
                mask = mask.float()
                mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
                vectors[part] = mean.float().cpu().numpy()
        return vectors

    return encode


def main() -> None:
    """Encode everything."""
    import torch
    from tokenizers import Tokenizer

    folder, minilm = map(Path, sys.argv[1:3])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_PIECES)
    data, encode = read(folder), encoder(minilm, device)
    vocabulary = (minilm / "vocab.txt").read_text(encoding="utf-8").split("\n")[:PIECES]
    vectors = unit(encode([encoding.ids for encoding in tokenizer.encode_batch(data["texts"])]))
    basis = np.linalg.eigh(vectors[::3].T @ vectors[::3])[1][:, ::-1][:, :DIMENSIONS]
    alone = encode([[_BEGIN, number, _END] for number in range(len(vocabulary))])
    listings = torch.tensor(vectors[data["docs"]]).to(device)
    questions, best = torch.tensor(vectors[[question for question, *_ in data["questions"]]]), []
    for start in range(0, len(questions), _QUESTIONS):
        products = questions[start : start + _QUESTIONS].to(device) @ listings.T
        best.append(products.topk(BEST, dim=1).indices.cpu().numpy())
    np.savez(
        folder / "teacher.npz",
        texts=packed(vectors @ basis),
        tokens=packed(alone @ basis),
        best=np.concatenate(best).astype(np.int32),
        words=np.frombuffer("\n".join(vocabulary).encode(), np.uint8),
    )


if __name__ == "__main__":
    main()
