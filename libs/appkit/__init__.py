"""Plumbing every service needs: errors, settings, logs, metrics, health, run, back-off, locks, clock.

Knows nothing of Proxmox, Kubernetes or CSI and must not learn it (a lint contract).
"""
