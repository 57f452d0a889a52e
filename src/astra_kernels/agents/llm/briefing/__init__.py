"""What prompts tell, as text. The same records give the same bytes: no times of day, no absolute paths, no seeds."""
