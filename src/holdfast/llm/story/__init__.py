"""The model of `holdfast demo`: it plays a short bug fix, with usage and a cache like those of a real provider.

It is part of the offline models and not of the command, so that the Sessions of the demonstration can be continued by any
process, for example by a server in which a person allows what still waits."""
