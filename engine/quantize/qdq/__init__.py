"""The Q/DQ form of a graph: written, checked, and put into the opset that the vendor reads."""
