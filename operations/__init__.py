"""What people do with a stack besides the engine's own commands."""
