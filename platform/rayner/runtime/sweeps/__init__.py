"""All of `rayner tune`; `sweep.sweep` is the call."""
