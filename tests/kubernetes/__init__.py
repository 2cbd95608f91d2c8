"""Tests with Helm and with a real Kubernetes API server, which `tests.kubernetes.tools` builds."""
