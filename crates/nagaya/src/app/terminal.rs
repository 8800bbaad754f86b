//! Colour, on a terminal only.

use std::io::IsTerminal;

/// Paints words for one output stream, or leaves them plain.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    colour: bool,
}

/// Paint for standard output.
pub(crate) fn stdout() -> Paint {
    Paint::new(std::io::stdout().is_terminal())
}

/// Paint for standard error.
pub(crate) fn stderr() -> Paint {
    Paint::new(std::io::stderr().is_terminal())
}

impl Paint {
    /// Honours <https://no-color.org>.
    fn new(is_terminal: bool) -> Paint {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paint {
            colour: is_terminal && !refused,
        }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Paint {
        Paint { colour: false }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
