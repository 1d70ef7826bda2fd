"""The vendor's cloud, simulated behind a real Pulumi provider plugin."""
