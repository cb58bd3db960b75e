"""From the files of a framework to a graph; each frontend is imported when it is needed."""
