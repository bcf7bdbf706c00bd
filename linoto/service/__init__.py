"""The decision service: loops that decide, learn and keep every event on disk before they answer."""
