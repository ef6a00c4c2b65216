"""What `ray job submit` runs: one short file a command of `rayner`."""
