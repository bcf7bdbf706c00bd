"""Files: the database with its one writer, and logs that new loops are started from."""
