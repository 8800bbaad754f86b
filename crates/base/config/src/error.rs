//! The one error of a load: every problem of every source.

use std::fmt;

use crate::loader::Origin;

/// Everything that is wrong with the configuration.
#[derive(Debug)]
pub struct Error {
    pub problems: Vec<Problem>,
}

/// One thing that is wrong, and where it was written.
#[derive(Debug)]
pub struct Problem {
    pub origin: Origin,
    pub message: String,
}

impl Error {
    /// Whether the command line alone is at fault.
    pub fn is_usage(&self) -> bool {
        self.problems
            .iter()
            .all(|problem| matches!(problem.origin, Origin::Flag { .. }))
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.problems.as_slice() {
            return write!(f, "{only}");
        }
        write!(f, "the configuration has {} problems", self.problems.len())?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}
