"""The vendor's public examples, run unchanged: see ``run_vendor_examples.py``."""
