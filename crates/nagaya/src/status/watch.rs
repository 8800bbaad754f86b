//! `nagaya status --watch`: the same again and again, in place on a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::report::Report;
use super::{Target, exit_code};
use crate::app::terminal::{self, Paint};

/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of the line, and everything below.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Asks until Ctrl-C. A server that answers at first and then no more is waited for.
pub(super) fn watch(target: Target, every: Duration, as_json: bool) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let mut screen = Screen {
            is_terminal: io::stdout().is_terminal() && !as_json,
            as_json,
            paint: terminal::stdout(),
            drawn: 0,
        };
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        let mut last = ExitCode::FAILURE;
        loop {
            let asked = target.clone();
            let asking = tokio::task::spawn_blocking(move || asked.ask());
            let answer = tokio::select! {
                answer = asking => answer.context("asking was cut off")?,
                _ = &mut interrupted => return Ok(last),
            };
            if screen.drawn == 0 && answer.is_err() {
                answer?;
                return Ok(ExitCode::FAILURE);
            }
            last = answer.as_ref().map_or(ExitCode::FAILURE, exit_code);
            screen.draw(answer)?;
            tokio::select! {
                () = tokio::time::sleep(every) => (),
                _ = &mut interrupted => return Ok(last),
            }
        }
    })
}

/// Where it is shown.
struct Screen {
    is_terminal: bool,
    as_json: bool,
    paint: Paint,
    drawn: u64,
}

impl Screen {
    fn draw(&mut self, answer: anyhow::Result<Report>) -> io::Result<()> {
        let text = match answer {
            Ok(report) if self.as_json => format!("{}\n", report.to_json()),
            Ok(report) => report.to_table(self.paint),
            Err(error) if self.as_json => {
                format!("{}\n", serde_json::json!({"error": format!("{error:#}")}))
            }
            Err(error) => format!("{} {error:#}\n", self.paint.red("no answer:")),
        };
        let mut out = io::stdout().lock();
        out.write_all(self.frame(&text).as_bytes())?;
        self.drawn += 1;
        out.flush()
    }

    /// On a terminal each line is written over the one before; elsewhere blocks follow each other.
    fn frame(&self, text: &str) -> String {
        match (self.is_terminal, self.as_json, self.drawn) {
            (true, _, 0) => format!("{HOME}\x1b[2J{text}"),
            (true, _, _) => {
                let lines = text.lines().map(|line| format!("{line}{CLEAR_LINE}\n"));
                format!("{HOME}{}{CLEAR_BELOW}", lines.collect::<String>())
            }
            (false, true, _) | (false, false, 0) => text.to_owned(),
            (false, false, _) => format!("\n{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_drawn_over_and_a_pipe_gets_blocks() {
        let screen = |is_terminal, as_json, drawn| Screen {
            is_terminal,
            as_json,
            paint: Paint::plain(),
            drawn,
        };
        assert_eq!(screen(true, false, 0).frame("a\nb\n"), "\x1b[H\x1b[2Ja\nb\n");
        assert_eq!(
            screen(true, false, 1).frame("a\nb\n"),
            "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"
        );
        assert_eq!(screen(false, false, 0).frame("a\n"), "a\n");
        assert_eq!(screen(false, false, 1).frame("a\n"), "\na\n");
        assert_eq!(screen(false, true, 1).frame("{}\n"), "{}\n");
    }
}
