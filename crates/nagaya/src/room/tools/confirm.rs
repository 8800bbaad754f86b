//! Asking before something is gone.

use std::io::{self, BufRead, IsTerminal, Write};

/// What the person said.
pub(crate) enum Said {
    Yes,
    No,
    /// Nobody can be asked.
    NoTerminal,
}

/// Asks on the terminal; anything but yes is no.
pub(crate) fn ask(question: &str) -> io::Result<Said> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Said::NoTerminal);
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Said::Yes,
        _ => Said::No,
    })
}
