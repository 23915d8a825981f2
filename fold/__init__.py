"""The heart: records to readings to judged rows to documents. No Spark, no Kafka, no clock."""
