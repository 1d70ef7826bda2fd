"""The stack's parts, one ComponentResource a file. They take args and read no configuration.

Each is used alone just as well: give it the providers it needs in its options.
"""
