"""A domain from outside (`metajournal_toys`), and how tests install it."""
