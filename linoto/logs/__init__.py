"""Read a log: files and frames become arms, statistics and rows; what would another policy have earned?"""
