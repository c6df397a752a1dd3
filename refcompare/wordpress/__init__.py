"""Releases of WordPress, installed sites, and the runtimes that host a worker."""
