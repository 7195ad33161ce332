"""Unit tests of pvekit: pure tables, and small Proxmox VE hosts with state behind an httpx transport."""
