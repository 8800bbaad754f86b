//! ROOM.*: where tags are, and how they come and go.

pub(crate) mod commands;
#[cfg(test)]
mod databases;
#[cfg(test)]
mod defects;
#[cfg(test)]
mod fields;
mod tags;
#[cfg(test)]
mod tests;
