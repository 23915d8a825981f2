"""Subscriptions to the change topics."""
