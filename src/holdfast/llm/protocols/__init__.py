"""Wire formats: encoding a request, decoding a stream. Pure; no URL, no credential, no I/O."""
