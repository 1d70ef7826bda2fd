"""Takes over what is there already: finds it, says what that means for the settings, writes files for `pulumi import`.

Nothing is changed in the account, in the cluster or in the stack's state.
"""
