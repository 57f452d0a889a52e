"""The four roles without a model: deterministic, no network."""
