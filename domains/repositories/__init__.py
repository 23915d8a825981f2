"""Git-like versions over object metadata: kinds reserved, not served yet."""
