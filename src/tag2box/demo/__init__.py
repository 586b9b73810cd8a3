"""The demo: scenes made of photographs that packages carry, learned and shown."""
