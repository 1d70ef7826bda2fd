"""Simulated nodes, GPUs, pods, load balancers and metrics."""
