"""What the servers share: who may ask, how they listen, and how they answer."""
