"""From a build to the real NPU: the vendor's toolkits in environments of their own, the compiler
behind them, and code for a board. Nothing of the vendor is shipped or imported here.
"""
