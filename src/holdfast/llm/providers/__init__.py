"""Providers: base URL, credential and protocol of each."""
