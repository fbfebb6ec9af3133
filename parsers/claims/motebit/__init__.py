"""Motebit: execution receipts, delegations, bearer tokens, identity files, and the trust that is computed from them."""
