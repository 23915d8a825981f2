"""What a commit contains, of commits alone: bases, merges by path, layers and roots. Pure, as rules are."""
