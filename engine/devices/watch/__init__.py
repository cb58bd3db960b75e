"""Boards watched several times a second, recorded, and shown again."""
