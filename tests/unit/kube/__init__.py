"""What of the Kubernetes bench can be tested without it."""
