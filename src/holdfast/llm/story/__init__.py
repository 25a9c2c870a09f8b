"""The model of `holdfast demo`: it plays a short bug fix, with usage and a cache like those of a real provider.

It is part of the offline models and not of the command, so that any process can continue the Sessions of the demo, such
as a server in which a person allows what still waits."""
