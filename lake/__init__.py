"""The Delta tables: columns, idempotent append, reading. No Spark is needed here."""
