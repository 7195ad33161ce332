"""The Proxmox VE API library: one client per cluster, typed answers, proofs of absence, and one writer per VM config.

It knows nothing of Kubernetes or CSI. Import the module that is needed (`pvekit.client`, `pvekit.clusters`, …); this
file imports nothing, so that a program that wants one pure codec does not pay for an HTTP client.
"""
