"""Claims: statements that somebody signed, and whether their signatures verify. Keys come from the caller."""
