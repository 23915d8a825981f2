"""What callers wait for without a thread each: futures, awaited acknowledgements, questions about verdicts."""
