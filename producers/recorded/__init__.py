"""What the epochs topic records of the journal topics: how they are made, and which domains from outside they serve."""
