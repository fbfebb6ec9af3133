"""What every engine shares: words, the vocabulary, how well a listing answers, prices, orders."""
