//! `nagaya token random`.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use anyhow::Context;

/// Random bytes of a token; 256 bits cannot be guessed.
const BYTES: usize = 32;

/// Prints a token that fits a setting.
pub(super) fn random() -> anyhow::Result<ExitCode> {
    let mut bytes = [0; BYTES];
    let source = "/dev/urandom";
    std::fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .with_context(|| format!("cannot read {source}"))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}
