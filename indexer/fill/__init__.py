"""State topics to Elasticsearch: following them, building an index anew, and holding one against the lake."""
