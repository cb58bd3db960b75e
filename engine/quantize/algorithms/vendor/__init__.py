"""The algorithm that repeats the vendor's choices."""
