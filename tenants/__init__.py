"""The wall between firms: who they are, who belongs to them, and which one is in scope."""
