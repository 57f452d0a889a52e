"""The four roles, each played by a language model, and one agent that plays all of them. Text in, text out."""
