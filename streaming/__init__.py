"""Spark: from the journal topics to the lake and the change, state and outcome topics."""
