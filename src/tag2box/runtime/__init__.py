"""How a run runs: settings, store, workers and progress. Nothing in here knows the method."""
