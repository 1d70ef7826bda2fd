"""From a stack's settings to the args of its components, and to its outputs."""
