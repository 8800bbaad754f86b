//! CRC-64 "Jones", the checksum that ends every dump payload.

/// The Jones polynomial, bits reversed: input and output are reflected.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// `TABLES[k][b]` is the checksum of byte `b` followed by `k` zero bytes, so
/// that eight input bytes are folded in one step.
static TABLES: [[u64; 256]; 8] = build_tables();

const fn build_tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        let mut k = 1;
        while k < 8 {
            let previous = tables[k - 1][byte];
            tables[k][byte] = tables[0][(previous & 0xff) as usize] ^ (previous >> 8);
            k += 1;
        }
        byte += 1;
    }
    tables
}

/// Continues a checksum over more bytes; a new one starts from 0.
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| {
        let folded = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        folded
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |sum, (&byte, table)| sum ^ table[usize::from(byte)])
    });
    rest.iter().fold(crc, |crc, &byte| {
        TABLES[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_is_reproduced() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_split_input_gives_the_same_sum() {
        let bytes: Vec<u8> = (0..200u8).collect();
        let whole = crc64(0, &bytes);
        for cut in 0..bytes.len() {
            assert_eq!(
                crc64(crc64(0, &bytes[..cut]), &bytes[cut..]),
                whole,
                "cut at {cut}"
            );
        }
    }
}
