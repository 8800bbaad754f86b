//! What a file holds, item by item.

use std::io::Read;

use crate::source::Source;
use crate::value::{Walk, module_name, pass_module_parts};
use crate::{Error, VERSION_READ_MAX, opcode};

/// Length of the mark at the end of what a server sends without knowing its length: 40 hexadecimal digits.
const MARK_BYTES: usize = 40;

/// The first version that ends with a checksum.
const CHECKSUM_SINCE: u16 = 5;
const MODULE: u8 = 7;

/// How much memory a reader may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Values made of elements come in parts of about this many bytes.
    pub part_bytes: usize,
    /// Values that cannot be cut, keys and texts of functions; Redis has no longer ones.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            part_bytes: 8 << 20,
            value_bytes: 512 << 20,
        }
    }
}

/// One thing that a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A note of the server that wrote the file, such as its version.
    Aux { name: Vec<u8>, value: Vec<u8> },
    /// How many keys the database has, and how many of them expire. A hint.
    Sizes { keys: u64, expiring: u64 },
    /// The text of a library of functions.
    Function { code: Vec<u8> },
    /// Data of a module outside of keys, which was passed over.
    ModuleData { module: String },
    /// A key; [`Reader::value`] gives its value.
    Key(Key),
}

/// A key without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where its type byte stands in the file.
    pub offset: u64,
    pub db: u32,
    pub name: Vec<u8>,
    /// The type byte; see [`payload::type_name`](crate::payload::type_name).
    pub kind: u8,
    /// Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// Seconds since its last use, when the server evicted by that.
    pub idle_s: Option<u64>,
    /// How often it was used, when the server evicted by that.
    pub frequency: Option<u8>,
    /// How many elements its value says to have, where they are counted.
    pub elements: Option<u64>,
    /// The module whose value it is.
    pub module: Option<String>,
}

/// How much of a value was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Some of its elements; there are more.
    Part,
    /// Its last elements.
    LastPart,
}

/// Whether the end of the file proved the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    Verified,
    /// The server that wrote it was told not to compute one, or is older than checksums.
    Absent,
}

/// Walks over a file from its start to its checksum.
pub struct Reader<R> {
    source: Source<R>,
    limits: Limits,
    version: u16,
    db: u32,
    value: Option<Value>,
    state: State,
}

/// A value that is being read.
struct Value {
    walk: Walk,
    /// Whether a part of it was handed out.
    begun: bool,
    /// The module's number, which was read for its name already.
    module: Option<Vec<u8>>,
}

enum State {
    Open,
    Failed,
    Ended(Checksum),
}

/// What is said of the next key before it comes.
#[derive(Default)]
struct Attributes {
    expires_at_ms: Option<i64>,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(inner: R, limits: Limits) -> Result<Reader<R>, Error> {
        let mut source = Source::new(inner);
        let version = header(&mut source)?;
        Ok(Reader {
            source,
            limits,
            version,
            db: 0,
            value: None,
            state: State::Open,
        })
    }

    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns where in the file the reader is.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Returns what the checksum said, once the end has been reached.
    pub fn checksum(&self) -> Option<Checksum> {
        match self.state {
            State::Ended(checksum) => Some(checksum),
            State::Open | State::Failed => None,
        }
    }

    /// Returns the next item; a value that was not asked for is passed over. `None` comes after the end mark
    /// and a checksum that is right: what came before is then what was written.
    // Not an iterator: a key's value is asked for between two items.
    #[allow(clippy::should_implement_trait, reason = "values are read between two items")]
    pub fn next(&mut self) -> Result<Option<Item>, Error> {
        match self.state {
            State::Open => (),
            State::Ended(_) => return Ok(None),
            State::Failed => return Err(self.after_failure()),
        }
        let item = self.pass_value().and_then(|()| self.item());
        if item.is_err() {
            self.state = State::Failed;
        }
        item
    }

    /// Reads the value of the key that came last into `out`: a type byte and the value as in a DUMP payload
    /// without its footer. A value larger than a part comes by several calls, each giving a smaller value of
    /// the same type. Must follow a key whose value was not read yet.
    pub fn value(&mut self, out: &mut Vec<u8>) -> Result<Extent, Error> {
        let Some(value) = self.value.take() else {
            return Err(self.after_failure());
        };
        let extent = self.part(value, out);
        self.source.take_kept();
        if extent.is_err() {
            self.state = State::Failed;
        }
        extent
    }

    /// Passes over the value of the key that came last, or over what is left of it.
    pub fn pass_value(&mut self) -> Result<(), Error> {
        let passed = match self.value.take() {
            Some(value) => self.pass(value),
            None => Ok(()),
        };
        if passed.is_err() {
            self.state = State::Failed;
        }
        passed
    }

    /// Fails unless the file ends where its content does. The mark by which a server without a file of its own ends
    /// what it sends may follow: `redis-cli --rdb -` leaves it there, because a pipe cannot be cut.
    pub fn expect_end(&mut self) -> Result<(), Error> {
        let offset = self.source.offset();
        let is_mark = |rest: &[u8]| rest.len() == MARK_BYTES && rest.iter().all(u8::is_ascii_hexdigit);
        match self.source.rest(MARK_BYTES)? {
            Some(rest) if rest.is_empty() || is_mark(&rest) => Ok(()),
            _ => Err(Error::Trailing { offset }),
        }
    }

    fn after_failure(&self) -> Error {
        Error::Damaged {
            offset: self.source.offset(),
            what: "nothing can be read after an error",
        }
    }

    fn part(&mut self, mut value: Value, out: &mut Vec<u8>) -> Result<Extent, Error> {
        let (source, limits) = (&mut self.source, &self.limits);
        source.keep(limits.value_bytes);
        let mut count = 0;
        while !value.walk.is_done() {
            value.walk.step(source)?;
            count += 1;
            if value.walk.has_parts() && source.kept_len() >= limits.part_bytes {
                break;
            }
        }
        out.clear();
        out.extend_from_slice(&value.walk.head(count));
        if let Some(number) = &value.module {
            out.extend_from_slice(number);
        }
        out.extend_from_slice(&source.take_kept());
        let done = value.walk.is_done();
        let extent = match (value.begun, done) {
            (false, true) => Extent::Whole,
            (true, true) => Extent::LastPart,
            (_, false) => Extent::Part,
        };
        if !done {
            value.begun = true;
            self.value = Some(value);
        }
        Ok(extent)
    }

    fn pass(&mut self, mut value: Value) -> Result<(), Error> {
        while !value.walk.is_done() {
            value.walk.step(&mut self.source)?;
        }
        Ok(())
    }

    fn item(&mut self) -> Result<Option<Item>, Error> {
        let text_max = self.limits.value_bytes as u64;
        let mut attributes = Attributes::default();
        loop {
            let offset = self.source.offset();
            let source = &mut self.source;
            match source.byte()? {
                opcode::EXPIRY_MS => attributes.expires_at_ms = Some(i64::from_le_bytes(source.array()?)),
                opcode::EXPIRY_S => {
                    let seconds = i64::from(i32::from_le_bytes(source.array()?));
                    attributes.expires_at_ms = Some(seconds * 1000);
                }
                opcode::IDLE => attributes.idle_s = Some(source.length()?),
                opcode::FREQUENCY => attributes.frequency = Some(source.byte()?),
                opcode::DATABASE => {
                    self.db = u32::try_from(source.length()?).map_err(|_| Error::Damaged {
                        offset,
                        what: "no database has such a number",
                    })?;
                }
                opcode::SIZES => {
                    let (keys, expiring) = (source.length()?, source.length()?);
                    return Ok(Some(Item::Sizes { keys, expiring }));
                }
                opcode::SLOT_INFO => {
                    for _ in 0..3 {
                        source.length()?;
                    }
                }
                opcode::AUX => {
                    let (name, value) = (source.string(text_max)?, source.string(text_max)?);
                    return Ok(Some(Item::Aux { name, value }));
                }
                opcode::FUNCTION => {
                    let code = source.string(text_max)?;
                    return Ok(Some(Item::Function { code }));
                }
                opcode::FUNCTION_IN_PARTS => {
                    return Err(Error::Damaged {
                        offset,
                        what: "functions in the form of release candidates of Redis 7.0 cannot be read",
                    });
                }
                opcode::MODULE_DATA => {
                    let module = module_name(source.length()?);
                    pass_module_parts(source)?;
                    return Ok(Some(Item::ModuleData { module }));
                }
                opcode::END => return self.end().map(|()| None),
                kind => return self.key(kind, offset, attributes).map(|key| Some(Item::Key(key))),
            }
        }
    }

    fn key(&mut self, kind: u8, offset: u64, attributes: Attributes) -> Result<Key, Error> {
        // A type that is unknown is told before the bytes after it are taken for a key's name.
        if crate::payload::type_name(kind) == "unknown" {
            return Err(Error::UnknownType { offset, kind });
        }
        let name = self.source.string(self.limits.value_bytes as u64)?;
        let walk = Walk::begin(&mut self.source, kind, offset)?;
        let elements = walk.counted();
        let (module, number) = match kind {
            MODULE => {
                self.source.keep(16);
                let id = self.source.length()?;
                (Some(module_name(id)), Some(self.source.take_kept()))
            }
            _ => (None, None),
        };
        self.value = Some(Value {
            walk,
            begun: false,
            module: number,
        });
        Ok(Key {
            offset,
            db: self.db,
            name,
            kind,
            expires_at_ms: attributes.expires_at_ms,
            idle_s: attributes.idle_s,
            frequency: attributes.frequency,
            elements,
            module,
        })
    }

    fn end(&mut self) -> Result<(), Error> {
        let mut checksum = Checksum::Absent;
        if self.version >= CHECKSUM_SINCE {
            let offset = self.source.offset();
            let computed = self.source.checksum();
            let written = u64::from_le_bytes(self.source.array()?);
            // Zero says that none was computed.
            if written != 0 {
                if written != computed {
                    return Err(Error::Checksum { offset });
                }
                checksum = Checksum::Verified;
            }
        }
        self.state = State::Ended(checksum);
        Ok(())
    }
}

/// Reads the magic and the version.
fn header<R: Read>(source: &mut Source<R>) -> Result<u16, Error> {
    let header: [u8; 9] = match source.array() {
        Err(Error::Cut { .. }) => return Err(Error::NotRdb),
        header => header?,
    };
    if header.starts_with(b"VALKEY") {
        return Err(Error::Valkey);
    }
    let digits = header.strip_prefix(b"REDIS").ok_or(Error::NotRdb)?;
    let mut version = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Error::NotRdb);
        }
        version = version * 10 + u16::from(digit - b'0');
    }
    if version == 0 || version > VERSION_READ_MAX {
        let newest = VERSION_READ_MAX;
        return Err(Error::Version { version, newest });
    }
    Ok(version)
}
