"""The cloud-controller-manager: matches each Node to its Proxmox VM and writes what Kubernetes wants to know of it.

    __main__ > app > node_controller > instances > matching, facts > smbios
                                     > addresses, labels, patches

Everything below `instances` in that picture is pure: values in, values out, no I/O and no clock.
"""
