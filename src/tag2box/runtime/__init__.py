"""How a run runs: workers and progress. Nothing in here knows the method."""
