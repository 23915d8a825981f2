"""The rules of files over columns: new files of many events at once, with the rows and verdicts of `rules`."""
