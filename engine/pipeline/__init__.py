"""The stages of a build, composed, and the cache of their results. No process, no protocol."""
