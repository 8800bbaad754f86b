//! Measures nagaya beside its peers.

fn main() {}
