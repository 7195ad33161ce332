"""pvekit against the simulated Proxmox VE: in one process on virtual time, and over real HTTPS."""
