"""GPU autoscaling as pure values: settings, metrics, adapter rules. Nothing here imports Pulumi."""
