"""The small framework's own tests need a GPU with torch; scripts/gpu/round_trip.py runs them there."""

collect_ignore_glob = ["minillm/*"]
