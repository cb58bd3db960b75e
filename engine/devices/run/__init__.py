"""What runs on a board once: a sample, a look at its memory; and what is told of a board."""
