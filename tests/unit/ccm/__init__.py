"""Unit tests of the cloud-controller-manager."""
