"""Publish policies, environments and corpora in repositories of the Hugging Face hub."""
