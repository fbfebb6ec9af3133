"""What every search engine answers: the same listings in the same order, whatever holds the index."""
