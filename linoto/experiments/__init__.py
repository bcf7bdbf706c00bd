"""Run many cells: settings, a runner that resumes, results, and what the paper claims."""
