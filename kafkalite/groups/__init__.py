"""Consumer groups: who is in a group, which generation it is in, and how far it has read.

`group` (with `roster` and `member`) is the state machine of one group and `offsets` the table of committed positions,
both pure; `records` is their form in the internal topic; `journal` writes and replays that topic; `coordinator` is all
of them on the event loop.
"""
