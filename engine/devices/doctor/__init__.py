"""A board's doctor: what to look at, in the order in which one searches a fault."""
