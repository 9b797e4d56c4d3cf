"""The pipeline that writes memories."""
