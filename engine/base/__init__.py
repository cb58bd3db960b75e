"""Errors, events, findings, files and text: what every room stands on. Standard library only."""
