"""The feed: changes as they come, as server-sent events, to any number of readers from one subscription."""
