"""The Helm chart, made of the manifests for kustomize: ``python -m deploy.generate`` writes it."""
