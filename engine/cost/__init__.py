"""What a model costs on a chip before there is one: placement, cycles, memory and time, estimated.

``lowering`` rewrites a graph as the vendor's compiler does; over its layers stand placement,
cycles, memory and time. Nothing here was measured on the user's board, and says so.
"""
