"""The CSI controller service: volumes on Proxmox VE storages, and their attachment to worker VMs.

Imports point down: `__main__` > `app` > `servicer` > `requests`, `replies` > `volumes`, `attachments`, `expansion`,
`capacity` > `workers`, `guard` > `whereabouts` > `placement`, `parameters`, `sizes`, `names` > `storage_types`. Only
servicer, requests, replies and app know gRPC or the CSI messages; everything below them speaks frozen values and raises
appkit.errors. `kube_nodes` is the only module below app that knows Kubernetes.
"""
