"""Verifiable chains of data slices: kinds reserved, not served yet."""
