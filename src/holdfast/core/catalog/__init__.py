"""The models of a Location and the route to each.

May import: policy, config, credential."""
