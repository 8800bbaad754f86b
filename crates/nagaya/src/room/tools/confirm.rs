//! Confirmation before data is removed.

use std::io::{self, BufRead, IsTerminal, Write};

/// The answer to a question on the terminal.
pub(crate) enum Confirmation {
    Yes,
    No,
    /// There is no terminal to ask on.
    NoTerminal,
}

/// Asks on the terminal; anything but yes is no.
pub(crate) fn ask(question: &str) -> io::Result<Confirmation> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Confirmation::NoTerminal);
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Confirmation::Yes,
        _ => Confirmation::No,
    })
}
