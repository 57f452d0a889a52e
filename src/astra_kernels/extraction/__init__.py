"""An operator out of somebody's sources, as a problem directory."""
