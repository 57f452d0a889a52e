"""How answers are written, and the parsers that read them; a fault is told to the model in words (`ModelRetry`)."""
