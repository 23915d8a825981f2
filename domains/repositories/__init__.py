"""Git-like versions over object metadata: branches, staged changes, commits and merges."""
