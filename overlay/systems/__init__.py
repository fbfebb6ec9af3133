"""Systems on the same index, each in a folder of its own: foreign protocols, payments, the relay, ratings. They share
nothing with each other."""
