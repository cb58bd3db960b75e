"""Tables, charts and whole reports as files: of a build, of estimates, and of the history.

Standard library only: a front end imports it, and asks the worker for what stands in a report.
"""
