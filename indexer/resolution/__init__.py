"""From blocks to events, and from pointers to listings: which satoshi an inscription is on, and what it changes."""
