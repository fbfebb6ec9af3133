"""Transactions that register, update, transfer and delist: built and signed here, sent only on request."""
