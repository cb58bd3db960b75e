"""Boards: how they are found and reached, what runs on them, and what they measure."""
