"""A history that `git` keeps, as a repository: read by git itself, planned, and sent event by event.

reading        what git holds: branches, graph, commits, changed paths, sizes
plan           on which branches its commits are made, in which order; pure
resolving      where a merge that git made is not what our rules make of it; pure
importing      from plan and contents to events, with the ids that the fold will give them
unconfirmed    what is sent and not yet known to be accepted
sending        to a journal
withdrawing    what is said after a refusal
present        what an earlier import has left there
"""
