//! What is shown while it runs: one screen that is drawn again on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::part::Part;
use crate::app::terminal::{self, Paint};

/// How often lines are written where no screen can be drawn again.
const LINES_EVERY: Duration = Duration::from_secs(10);
/// Characters of a line on the screen; a line that wraps could not be drawn over.
const WIDTH: usize = 100;

pub(super) struct Screen {
    url: String,
    length: Duration,
    is_terminal: bool,
    paint: Paint,
    /// Lines that are on the terminal already.
    drawn: usize,
    next_lines: Duration,
}

impl Screen {
    pub(super) fn new(url: &str, length: Duration) -> Screen {
        Screen {
            url: url.to_owned(),
            length,
            is_terminal: io::stderr().is_terminal(),
            paint: terminal::stderr(),
            drawn: 0,
            next_lines: LINES_EVERY.min(length),
        }
    }

    pub(super) fn draw(&mut self, elapsed: Duration, parts: &[Box<dyn Part>]) {
        let text = match self.is_terminal {
            true => self.screen(elapsed, parts),
            false if elapsed >= self.next_lines => {
                self.next_lines = elapsed + LINES_EVERY;
                lines(elapsed, parts)
            }
            false => return,
        };
        // A closed standard error is ignored.
        io::stderr().write_all(text.as_bytes()).ok();
    }

    /// The screen, over the one that was drawn before.
    fn screen(&mut self, elapsed: Duration, parts: &[Box<dyn Part>]) -> String {
        let mut lines = vec![
            format!(
                "{}  {}  {} of {} s  {}",
                self.paint.bold("nagaya demo"),
                self.url,
                elapsed.as_secs(),
                self.length.as_secs(),
                self.paint.dim("Ctrl-C ends it")
            ),
            String::new(),
        ];
        for part in parts {
            let words = part.skipped().map_or_else(|| part.line(), str::to_owned);
            let words: String = words.chars().take(WIDTH).collect();
            lines.push(format!(
                "  {} {words}",
                self.paint.bold(&format!("{:7}", part.name()))
            ));
        }
        lines.push(String::new());
        let up = match self.drawn {
            0 => String::new(),
            count => format!("\x1b[{count}A"),
        };
        self.drawn = lines.len();
        let body: String = lines.iter().map(|line| format!("\x1b[2K{line}\n")).collect();
        up + &body
    }
}

fn lines(elapsed: Duration, parts: &[Box<dyn Part>]) -> String {
    let shown = parts.iter().filter(|part| part.skipped().is_none());
    shown
        .map(|part| format!("{:>4} s  {:7} {}\n", elapsed.as_secs(), part.name(), part.line()))
        .collect()
}
