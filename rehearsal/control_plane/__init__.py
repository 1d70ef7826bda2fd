"""The real Kubernetes control plane of the rehearsal cloud."""
