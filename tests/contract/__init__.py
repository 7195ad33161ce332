"""pvesim against the recorded answers of a real Proxmox VE 9.2."""
