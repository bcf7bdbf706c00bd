"""HTTP: handlers that parse, call and render, and who may call them."""
