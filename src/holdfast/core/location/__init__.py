"""The services of one Location, built together and closed together.

May import: every package of core but runtime."""
