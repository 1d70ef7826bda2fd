"""A cloud on one machine: the program's real engine and control plane, with hardware and vendor API simulated."""
