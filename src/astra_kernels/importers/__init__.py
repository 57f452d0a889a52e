"""Other people's formats in, a Problem out."""
