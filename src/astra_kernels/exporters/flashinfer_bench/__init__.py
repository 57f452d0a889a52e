"""Runs as datasets of FlashInfer-Bench."""
