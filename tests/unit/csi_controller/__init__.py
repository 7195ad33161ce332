"""Unit tests of csi_controller."""
