"""Systems on the same index, each in a separate folder: foreign protocols, payments, the relay, ratings. They share
nothing with each other."""
