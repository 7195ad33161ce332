"""What both CSI services share: generated protocol, server, interceptor, status table, codecs of identifiers.

Knows the CSI protocol and gRPC; knows neither Proxmox nor Kubernetes and must not learn them (a lint contract).
"""
