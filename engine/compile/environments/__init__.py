"""Environments of the vendor's toolkits: made, adopted, found, checked and removed."""
