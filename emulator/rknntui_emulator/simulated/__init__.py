"""Answers of an emulated board that this program's simulator makes when they are asked for."""
