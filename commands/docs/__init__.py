"""The documents that `make docs` writes from the settings' models."""
