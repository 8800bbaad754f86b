//! Typed settings: declared once, read from four places, explained by themselves.
//!
//! Each component declares its own section with [`settings!`] in its own crate:
//! a field, its type, default, range and doc comment. From that one declaration
//! come the struct, the loader's checks, `nagaya config show`, the reference page
//! and the sample file. This crate knows no section by name and does no I/O: the
//! binary reads the file and the environment and hands over their text.
//!
//! Values are taken from the defaults, then the TOML file, then the environment
//! (`NAGAYA_SECTION__KEY`), then flags; the last one wins and its origin is kept.
//! All problems of all sources are collected and reported as one [`Error`].

mod error;
mod file;
mod listen;
mod loader;
mod macros;
mod nearest;
mod primitives;
mod reference;
mod secret;
mod section;
mod units;
mod value;

pub use error::{Error, Problem};
pub use listen::Listen;
pub use loader::{Entry, Flag, Loaded, Loader, Origin};
pub use reference::{reference_page, sample_file};
pub use secret::Secret;
pub use section::{Field, InvalidValue, ReloadPolicy, Section, SectionMeta, check, check_range};
pub use units::{ByteSize, with_unit};
pub use value::{Choice, Raw, Unset, Value};
