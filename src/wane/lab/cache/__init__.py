"""A provider's prefix cache: simulated (`prefix`), and what broke it in a recorded session (`rewrites`)."""
