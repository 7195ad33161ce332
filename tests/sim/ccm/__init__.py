"""The cloud-controller-manager against a simulated Proxmox VE and a fake Kubernetes API, over real sockets."""
