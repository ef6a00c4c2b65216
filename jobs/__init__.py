"""What `ray job submit` runs: one short file a verb of the `rayner` command."""
