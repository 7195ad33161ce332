"""The CSI node service: finds a plugged disk, makes and checks its filesystem, mounts it for Pods, grows it.

It runs privileged on every Kubernetes node and therefore holds no Proxmox credentials and no big clients: it imports
csikit, appkit, grpc and pyudev, and httpx in `own_node` alone.

Layers: __main__ > app > servicer > staging, publishing, expansion, stats > host. Only servicer, requests,
status_codes and app know grpc or csikit.pb; only host touches the machine.
"""
