//! The slot of a key, and the nodes of the slots.

use nagaya_reactor::Address;

/// The number of slots in a Cluster.
pub(crate) const SLOTS: usize = 16384;

/// A primary of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeInfo {
    /// `host:port` or a path, as in redirects.
    pub(crate) name: String,
    /// The name that its certificate must be for.
    pub(crate) host: String,
    pub(crate) address: Address,
}

/// The primaries and their slots at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) nodes: Vec<NodeInfo>,
    /// First slot, last slot, position in `nodes`.
    pub(crate) ranges: Vec<(u16, u16, usize)>,
}

/// Returns the slot of a hash tag.
///
/// Processes four bytes at a time: each step depends on the one before, and keys are short, so the number of
/// steps is what counts.
#[inline]
pub(crate) fn slot_of_tag(tag: &[u8]) -> u16 {
    let (fours, rest) = tag.as_chunks::<4>();
    let crc = fours.iter().fold(0u16, |crc, &[first, second, third, fourth]| {
        let [high, low] = crc.to_be_bytes();
        CRC16[3][usize::from(high ^ first)]
            ^ CRC16[2][usize::from(low ^ second)]
            ^ CRC16[1][usize::from(third)]
            ^ CRC16[0][usize::from(fourth)]
    });
    let crc = rest.iter().fold(crc, |crc, &byte| {
        crc << 8 ^ CRC16[0][usize::from((crc >> 8) as u8 ^ byte)]
    });
    crc % SLOTS as u16
}

/// CRC-16/XMODEM of every byte, followed by none to three zero bytes.
const CRC16: [[u16; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 32 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
            bit += 1;
            if bit % 8 == 0 {
                tables[bit / 8 - 1][byte] = crc;
            }
        }
        byte += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_client_library() {
        for tag in [
            "",
            "a",
            "ab",
            "abc",
            "abcd",
            "123456789",
            "user1000",
            "foo{}{bar}",
            "\u{ff}\u{0}xyz",
        ] {
            assert_eq!(
                slot_of_tag(nagaya_tiering::tag::tag_of(tag.as_bytes())),
                nagaya_redis_client::slot::of_key(tag.as_bytes()),
                "{tag}"
            );
        }
    }
}
