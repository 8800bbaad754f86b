//! What the hot tier decides about one tag, as pure functions.
//!
//! Each function is one atomic step: one Lua script in the distributed form, one
//! hold of the shard's lock in the embedded form. It looks at the tag's state,
//! refuses or changes it, and says what must happen to the keys in that same step.
//! The reference tier and the model check run this very code; the scripts and the
//! engine mirror it line by line. Every refusal is a guard of its own line, and
//! `docs/tiering.md` says what each of them prevents.
//!
//! Three roles meet here. *Servers* [`touch`] a tag for a lease and [`register`] keys
//! ahead of their first write in it. *Savers* take a [`snapshot`], commit it to the
//! cold tier, then [`remove`] what is certainly saved. *Evictors* [`mark`] a tag, wait
//! until no earlier lease and no earlier command is left, then [`confirm`].
//! Loaders [`begin`], claim the tag in the cold tier, and [`install`] its rows.

mod evict;
mod lease;
mod load;
mod save;
mod state;

pub use evict::{confirm, mark};
pub use lease::{Touched, register, touch};
pub use load::{Install, LoadStart, Part, begin, install};
pub use save::{Taken, remove, snapshot};
pub use state::{Meta, Run, State, TagState, Token, Tokens};
