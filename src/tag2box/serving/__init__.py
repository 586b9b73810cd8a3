"""A run's detector behind an address: for programs (`tag2box serve`) and for Label Studio."""
