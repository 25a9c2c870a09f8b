"""Who may use the page: its sign-ins, codes that sign in once, and links that answer one permission request."""
