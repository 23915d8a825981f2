"""The catalog's rules over columns: plain events of many entities at once, with the rows and verdicts of `rules`."""
