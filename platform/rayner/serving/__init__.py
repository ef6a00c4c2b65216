"""HTTP: schemas, batching, limits, and the Ray Serve application."""
