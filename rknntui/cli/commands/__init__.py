"""One module per verb; each has its click command under the name ``command``."""
