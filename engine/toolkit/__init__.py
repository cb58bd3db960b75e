"""The vendor's toolkits: the environments where they live, one of them as a process that is asked,
and the compiler behind it. Nothing of the vendor is shipped or imported here.
"""
