"""The Kubernetes bench: our services under a real control plane, the upstream sidecars and a real kubelet."""
