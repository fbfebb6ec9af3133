"""The projection of the store: an outbox consumer keeps one search index in step, with one position."""
