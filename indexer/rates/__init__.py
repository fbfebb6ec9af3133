"""Exchange rates: their feeds, which rates are believed, and the loop that stores them."""
