"""What each event means, one module a domain: pure and deterministic."""
