"""Objects in bulk over columns: rows and records of many events of a thousand objects each, as `rules` make them."""
