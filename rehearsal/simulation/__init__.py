"""Simulated hardware: nodes, cards, pods, load balancers and their metrics."""
