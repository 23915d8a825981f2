"""The language of the journal: contracts, events, codec, names and positions. Values in, values out."""
