"""The embedded engine: Transformers models with our own batching, key-value store and sampling."""
