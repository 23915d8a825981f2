"""Tables with snapshots and manifests: kinds reserved, not served yet."""
