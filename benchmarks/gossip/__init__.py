"""Does a broadcast reach every living peer, and how many messages does it take?"""
