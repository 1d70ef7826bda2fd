"""Gets or builds the tools that a rehearsal runs."""
