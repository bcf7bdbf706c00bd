"""Show: self-contained HTML pages and figures."""
