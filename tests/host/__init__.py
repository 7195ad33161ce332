"""The node service on a real kernel: real mkfs, fsck, mounts and growth on loop devices that play the plugged disks.

Needs root and e2fsprogs, xfsprogs and util-linux. Device nodes and sysfs entries lie under a folder of the test's own.
"""
