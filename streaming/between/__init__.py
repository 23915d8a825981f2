"""What is done to the lake while no batch is folded: a damaged file is waited for, a domain is added."""
