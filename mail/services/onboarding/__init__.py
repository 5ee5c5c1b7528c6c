"""The first look into a newly connected mailbox."""
