"""OAuth for MCP servers: discovery, client registration, sign-in with a browser, renewal of tokens.

A caller needs three things of it:

- `begin.begin_sign_in` starts a sign-in. Its result has the address for the browser and ends with an `OAuthCredential`.
- `authorizer.OAuthAuthorizer` adds the token to requests and decides what follows from a 401 or 403.
- `tokens.renew` renews a credential.

Where credentials are kept (`authorizer.OAuthCredentialStore`) and which addresses may be contacted
(`requests.AddressCheck`) is the caller's. Everything that a server sends is hostile: sizes are bounded, addresses are
checked, and no text of a server gets into a message before it was shortened. No secret appears in a repr or a
message."""
