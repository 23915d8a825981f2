"""Which run touched which data."""
