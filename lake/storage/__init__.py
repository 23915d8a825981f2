"""How tables are written and kept: files, row groups, compaction, generations, locks, and what is damaged."""
