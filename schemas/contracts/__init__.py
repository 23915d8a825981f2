"""The Avro contracts (.avsc), read with importlib.resources."""
