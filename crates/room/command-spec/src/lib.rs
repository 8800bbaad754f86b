//! What the command table says of a command: arity, flags, key positions.
