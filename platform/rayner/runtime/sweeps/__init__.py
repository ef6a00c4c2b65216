"""All of `rayner tune`; `run.sweep` is the call."""
