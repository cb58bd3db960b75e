"""A stand-in for the package of rknn-toolkit, generation 1: nothing of the vendor is in it."""
