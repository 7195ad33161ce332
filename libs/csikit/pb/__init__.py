"""Code generated from proto/csi/v1/csi.proto by tools/gen_proto.py. Do not edit: `make generate` renews it."""
