"""Stand-ins for the vendor's runtime libraries, in C: they compute nothing and answer from a file.

``build`` compiles them with the user's compiler, ``answers`` writes what they answer.
"""
