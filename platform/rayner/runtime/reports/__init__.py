"""The pages of `rayner report`."""
