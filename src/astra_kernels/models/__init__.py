"""Language models: opened by name, asked as text, metered against the run's budget, recorded word for word."""
