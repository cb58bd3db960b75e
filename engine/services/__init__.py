"""The handlers behind the wire, a module for each workspace or verb; what a worker keeps."""
