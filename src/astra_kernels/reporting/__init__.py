"""A run as something to read: one page of HTML, or Markdown. A pure function of the run's record."""
