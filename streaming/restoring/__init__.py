"""Lost topics of the journal, restored from the journal table into a new epoch."""
