"""What this service may do to the machine it runs on: processes, sysfs, device nodes, mounts, filesystems.

Nothing in here knows CSI. Two seams make it testable: `exec.Runner` (processes) and `kernel.Kernel` (system calls).
"""
