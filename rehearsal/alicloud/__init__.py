"""Alibaba Cloud, simulated behind a Pulumi provider plugin."""
