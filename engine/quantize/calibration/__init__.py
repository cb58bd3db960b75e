"""One pass over the samples that observes every tensor."""
