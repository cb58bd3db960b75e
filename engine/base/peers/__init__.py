"""A program at the other end of two byte streams: requests and answers, one JSON object a line.

``far`` is the end that answers: one file of standard library in the language of Python 3.5, which
also runs copied beside a script in a vendor's environment or on a board. ``near`` is the end that
asks, blocking or in an asyncio loop; ``child`` starts a program of this machine and tells how it
ended; ``limits`` is what the kernel holds a process to. All of it is standard library.
"""
