"""Motebit: execution receipts, delegations, bearer tokens, identity files, and what trust is computed from them."""
