"""Bytes in, records out: no I/O, no async, no clock, no logging, no database."""
