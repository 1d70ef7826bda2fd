"""The rehearsal cloud: the real engine and control plane on one machine, with simulated hardware and vendor API."""
