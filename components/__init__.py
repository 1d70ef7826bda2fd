"""The stack's parts: a ComponentResource per file.

Args carry plain values: a component reads neither settings nor the environment. Each component can be used alone; pass
the providers that it requires in its options. Each registers its public outputs, so that it shows as finished during
`up` and its outputs are in the state; `docs/bench.md` has the cost.
"""
