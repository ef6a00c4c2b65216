"""The parts of `rayner annotate`."""
