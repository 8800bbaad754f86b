//! Named SQL blocks, typed rows and checked migrations.
//!
//! Statements live in one `.sql` file per table or area, as named blocks. [`block`] takes one out of its file at
//! compile time, so an unknown name stops the build. [`row!`] declares the columns that a statement returns and
//! reads them by position. A test per database prepares every block and hands the columns it found to
//! [`assert_columns`], so positions and statements cannot drift apart.
//!
//! This crate depends on no driver: `row!` names the driver's row type in the crate that calls it.
//!
//! ```
//! use nagaya_sql::{block, row};
//!
//! // In a crate this is `include_str!("queries/rooms.sql")`.
//! const ROOMS: &str = "
//! -- name: find
//! SELECT id, name FROM rooms WHERE id = ?1;
//!
//! -- name: count
//! SELECT count(*) FROM rooms;
//! ";
//! const FIND: &str = block(ROOMS, "find");
//!
//! row! {
//!     sqlite;
//!     struct RoomRow { id: i64, name: String }
//! }
//!
//! # fn main() -> rusqlite::Result<()> {
//! let connection = rusqlite::Connection::open_in_memory()?;
//! connection.execute_batch("CREATE TABLE rooms (id INTEGER, name TEXT); INSERT INTO rooms VALUES (7, 'attic')")?;
//! let room = connection.query_row(FIND, [7], RoomRow::read)?;
//! assert_eq!((room.id, room.name.as_str()), (7, "attic"));
//! assert!(connection.prepare(FIND)?.column_names().eq(RoomRow::COLUMNS.iter().copied()));
//! # Ok(())
//! # }
//! ```

mod block;
mod columns;
mod history;
mod row;

pub use block::{block, blocks};
pub use columns::{SCALAR, assert_columns, blocks_in, position};
pub use history::{Changed, History, Migration, Recorded, Step};
