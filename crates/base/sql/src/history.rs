//! The migrations of a schema, and what a database recorded of them.
//!
//! This is what both databases share: numbers, checksums, the comparison of a recorded history with the program's
//! own, and which steps lead from one schema to another. How a history is stored and locked is the driver's part.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// One step of a schema, and back. Its text is never changed after its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

impl Migration {
    /// Returns the SHA-256 of the text that makes the step, in hexadecimal digits.
    pub fn checksum(&self) -> String {
        let mut digits = String::new();
        for byte in Sha256::digest(self.up.as_bytes()) {
            write!(digits, "{byte:02x}").expect("writing to a string cannot fail");
        }
        digits
    }
}

/// All migrations of a schema in order; the first has number 1.
#[derive(Clone, Copy, Debug)]
pub struct History(pub &'static [Migration]);

/// A migration as a database recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub number: u32,
    pub name: String,
    pub checksum: String,
}

/// The recorded migration is missing or was made by another text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub number: u32,
    /// The name of the program's migration of this number.
    pub name: &'static str,
}

/// A step between two schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up { number: u32, migration: Migration },
    Down { number: u32, migration: Migration },
}

impl History {
    /// Returns the number of the newest schema; 0 stands for an empty one.
    pub const fn newest(self) -> u32 {
        self.0.len() as u32
    }

    /// Compares the first `applied` migrations with what was recorded of them, in order.
    pub fn verify(self, applied: u32, recorded: &[Recorded]) -> Result<(), Changed> {
        let mut recorded = recorded.iter();
        for (number, migration) in self.numbered().take_while(|(number, _)| *number <= applied) {
            let is_same = recorded.next().is_some_and(|found| {
                found.number == number
                    && found.name == migration.name
                    && found.checksum == migration.checksum()
            });
            if !is_same {
                return Err(Changed {
                    number,
                    name: migration.name,
                });
            }
        }
        Ok(())
    }

    /// Returns the steps from one schema to another: up in order, or down in reverse order.
    pub fn steps(self, applied: u32, target: u32) -> Vec<Step> {
        let up = self
            .numbered()
            .filter(|(number, _)| *number > applied && *number <= target)
            .map(|(number, migration)| Step::Up { number, migration });
        let mut down: Vec<Step> = self
            .numbered()
            .filter(|(number, _)| *number <= applied && *number > target)
            .map(|(number, migration)| Step::Down { number, migration })
            .collect();
        down.reverse();
        up.chain(down).collect()
    }

    fn numbered(self) -> impl Iterator<Item = (u32, Migration)> {
        (1..).zip(self.0.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTORY: History = History(&[
        Migration {
            name: "houses",
            up: "CREATE TABLE houses (name TEXT)",
            down: "DROP TABLE houses",
        },
        Migration {
            name: "rooms",
            up: "CREATE TABLE rooms (name TEXT)",
            down: "DROP TABLE rooms",
        },
    ]);

    fn recorded() -> Vec<Recorded> {
        HISTORY
            .numbered()
            .map(|(number, migration)| Recorded {
                number,
                name: migration.name.to_owned(),
                checksum: migration.checksum(),
            })
            .collect()
    }

    #[test]
    fn a_checksum_is_the_sha256_of_the_text() {
        let migration = Migration {
            name: "",
            up: "abc",
            down: "",
        };
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(migration.checksum(), expected);
    }

    #[test]
    fn a_history_equals_what_was_recorded_of_it() {
        assert_eq!(HISTORY.verify(2, &recorded()), Ok(()));
        assert_eq!(HISTORY.verify(1, &recorded()[..1]), Ok(()));
        assert_eq!(HISTORY.verify(0, &[]), Ok(()));
    }

    #[test]
    fn a_missing_or_changed_migration_is_named() {
        let changed = Err(Changed {
            number: 2,
            name: "rooms",
        });
        assert_eq!(HISTORY.verify(2, &recorded()[..1]), changed);
        let edits: [fn(&mut Recorded); 3] = [
            |row| row.number = 3,
            |row| row.name.push('x'),
            |row| row.checksum.clear(),
        ];
        for edit in edits {
            let mut rows = recorded();
            edit(&mut rows[1]);
            assert_eq!(HISTORY.verify(2, &rows), changed);
        }
    }

    #[test]
    fn steps_go_up_in_order_and_down_in_reverse() {
        let numbers = |applied, target| {
            let step = |step| match step {
                Step::Up { number, .. } => i64::from(number),
                Step::Down { number, .. } => -i64::from(number),
            };
            HISTORY
                .steps(applied, target)
                .into_iter()
                .map(step)
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(0, 2), [1, 2]);
        assert_eq!(numbers(1, 2), [2]);
        assert_eq!(numbers(2, 2), []);
        assert_eq!(numbers(2, 0), [-2, -1]);
    }
}
