"""Access: who may do what through the gateway, as events of a topic of their own."""
