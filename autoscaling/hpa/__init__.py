"""The arithmetic of Kubernetes' HPA controller."""
