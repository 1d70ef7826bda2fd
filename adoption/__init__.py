"""Takes over what is there already: finds it, says what it means for the settings, and writes files that Pulumi imports.

Nothing is changed in the account, in the cluster or in the stack's state.
"""
