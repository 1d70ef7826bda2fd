"""From the catalogue of metrics to the adapter's rules and the names that an HPA reads."""
