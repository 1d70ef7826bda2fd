"""The stack's parts, one ComponentResource a file. They take args and read no configuration.

Each is used alone just as well: give it the providers it needs in its options. None registers outputs: nobody reads
them from the state, and each call is a round trip, after which the SDK looks at everything that is still pending;
`docs/bench.md` has what that costs.
"""
