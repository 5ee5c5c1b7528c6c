"""Gmail automation: mailboxes, mail, decisions and actions; everything it does is a job."""
