"""`make demo`: the whole slice as real processes over real sockets, shown step by step.

A simulated Proxmox VE cluster and a fake Kubernetes API run beside the shipped services; the demo itself plays what a
cluster would add: the scheduler's choice of a node, the CSI sidecars' calls, and the kubelet's. It is told once and
from top to bottom in `story`; every other module here serves it. No service is replaced by a test double.
"""
