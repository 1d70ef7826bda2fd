"""A benchmark: the program against a flat program with the same resources, on the rehearsal cloud."""
