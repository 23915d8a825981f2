"""The Avro contracts of the catalog domain."""
