//! Fills a server with data over one pipelined connection, the same bytes for every server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_resp::encode_request;

use super::plan::VALUE_BYTES;
use super::servers::Server;

/// Commands sent before their replies are read. Small enough that neither side's socket buffer fills.
const BATCH: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes the keys that redis-benchmark draws from.
pub(super) fn fill_benchmark_keys(server: &Server, numbers: Range<u64>) -> anyhow::Result<()> {
    let value = [b'x'; VALUE_BYTES];
    fill(server, numbers, |number, out| {
        encode_request(&[b"SET", format!("key:{number:012}").as_bytes(), &value], out);
    })
}

/// Sends the command that `encode` makes of each number; an error reply ends it.
pub(super) fn fill(
    server: &Server,
    numbers: Range<u64>,
    encode: impl Fn(u64, &mut Vec<u8>),
) -> anyhow::Result<()> {
    let name = server.side.name();
    let stream = TcpStream::connect(server.address).with_context(|| format!("cannot reach {name}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let (mut stream, mut batch, mut line) = (stream, Vec::new(), Vec::new());
    let mut first = numbers.start;
    while first < numbers.end {
        let last = numbers.end.min(first + BATCH);
        batch.clear();
        (first..last).for_each(|number| encode(number, &mut batch));
        stream
            .write_all(&batch)
            .with_context(|| format!("{name} does not take the data"))?;
        for _ in first..last {
            line.clear();
            replies
                .read_until(b'\n', &mut line)
                .with_context(|| format!("{name} does not answer"))?;
            // The commands used here answer one line each: OK, or a count.
            if !matches!(line.first(), Some(b'+' | b':')) {
                bail!(
                    "{name} refused the data: {}",
                    String::from_utf8_lossy(&line).trim_end()
                );
            }
        }
        first = last;
    }
    Ok(())
}
