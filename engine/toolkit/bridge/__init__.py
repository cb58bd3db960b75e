"""The bridge to a vendor's toolkit, whose near side is :mod:`engine.toolkit.toolkit`.

``worker`` is its far side and runs in the environment of the toolkit, ``values`` is what goes over
it, ``process`` starts and ends it, ``log`` keeps what the toolkit prints.
"""
