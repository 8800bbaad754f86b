//! Function libraries as FUNCTION DUMP gives and FUNCTION RESTORE takes them.

use super::wire::{Reader, put_string};
use super::{VERSION, check_footer, put_footer};

/// Marks a library: its whole text follows as a string.
const LIBRARY: u8 = 245;
/// Marks a library as the first previews of Redis 7.0 wrote it: in parts.
const LIBRARY_IN_PARTS: u8 = 246;

/// Why a payload of libraries was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// The footer is missing, of a newer format, or of other bytes.
    VersionOrChecksum,
    /// There is something else than a library in it.
    NotAFunction,
    /// A library cannot be read.
    BadData,
}

/// Returns the payload of libraries, given as their texts.
pub fn dump_functions<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        out.push(LIBRARY);
        put_string(&mut out, code);
    }
    put_footer(&mut out, VERSION);
    out
}

/// Walks over the texts of a payload's libraries.
pub fn functions(
    payload: &[u8],
) -> Result<impl Iterator<Item = Result<Vec<u8>, FunctionError>>, FunctionError> {
    let body = check_footer(payload).ok_or(FunctionError::VersionOrChecksum)?;
    let mut reader = Reader::new(body);
    let mut failed = false;
    Ok(std::iter::from_fn(move || {
        if failed || reader.is_empty() {
            return None;
        }
        let library = read_library(&mut reader);
        failed = library.is_err();
        Some(library)
    }))
}

fn read_library(reader: &mut Reader<'_>) -> Result<Vec<u8>, FunctionError> {
    let bad = |_| FunctionError::BadData;
    match reader.byte().map_err(bad)? {
        LIBRARY => Ok(reader.string().map_err(bad)?.into_owned()),
        LIBRARY_IN_PARTS => {
            let name = reader.string().map_err(bad)?.into_owned();
            let engine = reader.string().map_err(bad)?.into_owned();
            if reader.length().map_err(bad)? != 0 {
                reader.string().map_err(bad)?;
            }
            let code = reader.string().map_err(bad)?;
            Ok([b"#!", engine.as_slice(), b" name=", &name, b"\n", &code].concat())
        }
        _ => Err(FunctionError::NotAFunction),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(payload: &[u8]) -> Result<Vec<Vec<u8>>, FunctionError> {
        functions(payload)?.collect()
    }

    fn payload(body: &[u8]) -> Vec<u8> {
        let mut out = body.to_vec();
        put_footer(&mut out, VERSION);
        out
    }

    #[test]
    fn libraries_come_back() {
        let long = b"#!lua name=b\n"
            .iter()
            .chain([b'x'; 500].iter())
            .copied()
            .collect::<Vec<u8>>();
        let codes = [b"#!lua name=a\nx".as_slice(), &long];
        let dumped = dump_functions(codes.into_iter());
        assert_eq!(read(&dumped).unwrap(), codes);
        assert_eq!(
            read(&dump_functions(std::iter::empty())).unwrap(),
            Vec::<Vec<u8>>::new()
        );
    }

    #[test]
    fn a_library_in_parts_is_put_together() {
        let parts = payload(b"\xf6\x01a\x03LUA\x01\x04text\x04code");
        assert_eq!(read(&parts).unwrap(), [b"#!LUA name=a\ncode"]);
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(read(b"short"), Err(FunctionError::VersionOrChecksum));
        assert_eq!(read(&payload(b"\x00\x01a")), Err(FunctionError::NotAFunction));
        assert_eq!(read(&payload(b"\xf5\x09a")), Err(FunctionError::BadData));
        let mut changed = dump_functions([b"abc".as_slice()].into_iter());
        changed[2] ^= 1;
        assert_eq!(read(&changed), Err(FunctionError::VersionOrChecksum));
    }
}
