"""The far side of the bridge, which runs in the environment of a vendor's toolkit."""
