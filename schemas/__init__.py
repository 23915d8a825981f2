"""The language: contracts, event classes, codec, URNs, positions, topic names. Values in, values out."""
