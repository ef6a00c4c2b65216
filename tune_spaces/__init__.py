"""Search spaces for `rayner tune`: one file a task, each with `space()`."""
