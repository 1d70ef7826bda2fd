"""From a stack's settings to its components, and to what it exports."""
