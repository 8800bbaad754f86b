//! A file from values as DUMP gives them.

use std::io::{self, Write};

use nagaya_store::rdb::crc64;

use crate::value::put_length;
use crate::{opcode, payload};

/// Why a key was not written. The file is as before, unless writing itself failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the payload's checksum is not that of its bytes")]
    Payload,
    #[error("a value of type {kind} needs a file of version {needed}, and this one has {version}")]
    Version { kind: u8, needed: u16, version: u16 },
    #[error("the file could not be written")]
    Write(#[from] io::Error),
}

/// Writes a file. It is whole once [`finish`](Writer::finish) has returned.
pub struct Writer<W> {
    out: W,
    crc: u64,
    version: u16,
    head: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. [`VERSION`](crate::VERSION) unless values of newer servers are to come.
    pub fn new(out: W, version: u16) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            crc: 0,
            version,
            head: Vec::new(),
        };
        writer.put(format!("REDIS{version:04}").as_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc64(self.crc, bytes);
        self.out.write_all(bytes)
    }

    /// Writes a note, such as the version of the server.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        let mut bytes = vec![opcode::AUX];
        put_plain(&mut bytes, name);
        put_plain(&mut bytes, value);
        self.put(&bytes)
    }

    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        let mut bytes = vec![opcode::FUNCTION];
        put_plain(&mut bytes, code);
        self.put(&bytes)
    }

    /// Begins a database; `keys` and `expiring` are hints for the reader's tables.
    pub fn database(&mut self, db: u32, keys: u64, expiring: u64) -> io::Result<()> {
        let mut bytes = vec![opcode::DATABASE];
        put_length(&mut bytes, u64::from(db));
        bytes.push(opcode::SIZES);
        put_length(&mut bytes, keys);
        put_length(&mut bytes, expiring);
        self.put(&bytes)
    }

    /// Writes a key with its value as DUMP gives it. No key may come twice: Redis ends when it reads such a file.
    pub fn key(&mut self, name: &[u8], expires_at_ms: Option<i64>, dumped: &[u8]) -> Result<(), KeyError> {
        let (body, _) = payload::open(dumped).ok_or(KeyError::Payload)?;
        let (kind, value) = (body[0], &body[1..]);
        let needed = payload::version_of(kind);
        if needed > self.version {
            let version = self.version;
            return Err(KeyError::Version {
                kind,
                needed,
                version,
            });
        }
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        if let Some(at_ms) = expires_at_ms {
            head.push(opcode::EXPIRY_MS);
            head.extend_from_slice(&at_ms.to_le_bytes());
        }
        head.push(kind);
        put_plain(&mut head, name);
        let written = self.put(&head).and_then(|()| self.put(value));
        self.head = head;
        written.map_err(KeyError::Write)
    }

    /// Writes the end mark and the checksum, and flushes.
    pub fn finish(mut self) -> io::Result<W> {
        self.put(&[opcode::END])?;
        let crc = self.crc;
        self.out.write_all(&crc.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn put_plain(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len() as u64);
    out.extend_from_slice(text);
}
