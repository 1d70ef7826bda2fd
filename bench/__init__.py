"""What the program costs: measured against a flat program of the same resources, on the rehearsal cloud."""
