"""The catalogue of metrics, the adapter's rules, and the metric names that an HPA reads."""
