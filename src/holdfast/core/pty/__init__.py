"""Terminals of a Location: real pseudo-terminals that outlive whoever looks at them."""
