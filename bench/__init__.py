"""The cost of the program: it is measured against a flat program of the same resources, on the rehearsal cloud."""
