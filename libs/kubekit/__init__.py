"""Kubernetes on the official client's asyncio half, with what that half lacks; raw dicts in and out.

Knows neither Proxmox nor CSI and must not learn it (a lint contract).
"""
