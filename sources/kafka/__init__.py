"""Kafka clusters: topics with their settings, and the schemas that a registry has for them."""
