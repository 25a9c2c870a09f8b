"""Pseudo-terminals of a Location; they outlive the clients that watch them.

May import: process, shell."""
