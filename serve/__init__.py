"""Serve application builders and their YAML configurations."""
