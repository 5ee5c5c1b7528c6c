"""A Gmail of one's own: Gmail's REST API over a local SQLite file, for development and tests.

Routes, parameters and shapes come from the discovery document; what the methods do follows
Google's guides. Where those are silent, the simulator does what is harder for its client: trash
takes a message out of the inbox and untrash does not put it back, batch methods ignore unknown ids,
a threadId without fitting headers starts a new thread, history ids have gaps.
Attachment ids change at each reading and expire. Settings other than sendAs, and resumable uploads,
are not simulated and answer 404 or 501. Over HTTP it also serves OAuth: a consent page, tokens and revocation.
"""
