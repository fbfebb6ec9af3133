"""Vectors of other systems: `python -m tests.vectors FILE…` evaluates files in the format of `vectors/trust/*.jsonl`.

Each line is a JSON object with `system`, `kind` (absent where the system has one kind only), `name` and `expected`;
the other members are the input of its kind. Nothing here knows a name of a vector or a value of one.
"""
