"""The way from blocks to events, and from pointers to listings: which satoshi an inscription is on, and its effects."""
