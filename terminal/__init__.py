"""What every command is made of: options, parsing, tables, progress, exits."""
