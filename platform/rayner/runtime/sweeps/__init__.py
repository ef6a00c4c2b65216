"""The parts of `rayner tune`."""
