"""All messages that cross the wire between peers, by tag: what each machine says, joined.

    0x01xx ring    0x02xx directory    0x03xx gossip    0x0fxx the host's own (hello, good-bye)

A tag is never used again for another message.
"""
