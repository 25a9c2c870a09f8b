"""From the protocol to source code: compiled once into the SDK Contract IR, which is all that an emitter reads."""
