"""The wire form of events: Avro schemas, their contracts, and what reads and writes records, singly and in bulk."""
