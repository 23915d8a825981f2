"""Frozen views of the lake: what a question reads, as values that threads share."""
