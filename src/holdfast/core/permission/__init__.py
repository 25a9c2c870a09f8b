"""Permissions: rules, the wildcard they are written in, and asking a person where the rules say so."""
