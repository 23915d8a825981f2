"""Questions to hits: the grammar, the queries made of it, pages, completions, and why a hit is one."""
