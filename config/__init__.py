"""The composition root: reads the environment and wires the apps together."""
