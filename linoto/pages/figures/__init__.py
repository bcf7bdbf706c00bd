"""Results in, pictures out: the only place that knows matplotlib."""
