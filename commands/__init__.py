"""The commands of the command line: what each takes, which room does the work, how the result is worded.

`cli.py` is the door and the only one that imports this room; it may import every other.
Heavy parts are imported by the command that needs them, so `metajournal --help` and the light client stay quick.
"""
