"""A simulator of Proxmox VE 9.2 that answers from state and rules. See README.md in this folder."""
