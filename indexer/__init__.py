"""From the state topics to Elasticsearch: mapping, terms, search."""
