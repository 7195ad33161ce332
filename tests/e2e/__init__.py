"""Kubernetes' own storage tests (External Storage) against the driver, on the Kubernetes bench."""
