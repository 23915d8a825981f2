"""The Avro contracts of the files domain."""
