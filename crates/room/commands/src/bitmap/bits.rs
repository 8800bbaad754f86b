//! Counting, finding and joining bits, eight bytes at a time.

/// How BITOP joins its strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    And,
    Or,
    Xor,
    Not,
}

/// Counts the set bits.
pub(super) fn count(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let ones: u64 = words
        .iter()
        .map(|word| u64::from(u64::from_ne_bytes(*word).count_ones()))
        .sum();
    ones + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Counts the set bits from `first` to `last`, both included and inside the string.
pub(super) fn count_range(bytes: &[u8], first: usize, last: usize) -> u64 {
    let inside = &bytes[first / 8..=last / 8];
    let before = inside[0] & !(0xff >> (first % 8));
    let after = inside[inside.len() - 1] & !(0xff << (7 - last % 8));
    count(inside) - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// Finds the first bit that is `wanted` from `first` to `last`, both included and inside the string.
pub(super) fn find(bytes: &[u8], wanted: bool, first: usize, last: usize) -> Option<usize> {
    // Seen through this mask, what is wanted is always a set bit.
    let flip = if wanted { 0 } else { 0xff };
    let (head, tail) = (first / 8, last / 8);
    let byte = (bytes[head] ^ flip) & (0xff >> (first % 8));
    let at = if byte != 0 {
        head * 8 + byte.leading_zeros() as usize
    } else {
        let from = head + 1;
        from * 8 + find_set(bytes.get(from..=tail)?, u64::from_ne_bytes([flip; 8]))?
    };
    (at <= last).then_some(at)
}

/// Finds the first bit that is set once every word is flipped by `flip`.
fn find_set(bytes: &[u8], flip: u64) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_be_bytes(*word) ^ flip;
        if word != 0 {
            return Some(at * 64 + word.leading_zeros() as usize);
        }
    }
    for (at, byte) in rest.iter().enumerate() {
        let byte = byte ^ flip as u8;
        if byte != 0 {
            return Some((words.len() * 8 + at) * 8 + byte.leading_zeros() as usize);
        }
    }
    None
}

/// Joins strings; the shorter ones count as followed by zero bytes.
pub(super) fn combine(operation: Operation, sources: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let length = sources.iter().map(|source| source.as_ref().len()).max();
    let mut result = Vec::with_capacity(length.unwrap_or(0));
    let Some((first, others)) = sources.split_first() else {
        return result;
    };
    result.extend_from_slice(first.as_ref());
    result.resize(length.unwrap_or(0), 0);
    // One plain loop per operation over whole strings: the compiler makes wide instructions of each.
    for source in others.iter().map(AsRef::as_ref) {
        let pairs = result.iter_mut().zip(source);
        match operation {
            Operation::And => {
                pairs.for_each(|(all, byte)| *all &= byte);
                result[source.len()..].fill(0);
            }
            Operation::Or => pairs.for_each(|(all, byte)| *all |= byte),
            Operation::Xor => pairs.for_each(|(all, byte)| *all ^= byte),
            Operation::Not => (),
        }
    }
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit(bytes: &[u8], at: usize) -> bool {
        bytes[at / 8] & (0x80 >> (at % 8)) != 0
    }

    /// Strings with long even runs, where the word-wise loops do their skipping.
    fn strings() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![4 => Just(0u8), 4 => Just(0xffu8), 1 => any::<u8>()];
        proptest::collection::vec(byte, 1..64)
    }

    proptest! {
        #[test]
        fn counting_and_finding_agree_with_one_bit_at_a_time(
            bytes in strings(), a in any::<usize>(), b in any::<usize>(), wanted in any::<bool>()
        ) {
            let total = bytes.len() * 8;
            let (first, last) = ((a % total).min(b % total), (a % total).max(b % total));
            let slow = (first..=last).filter(|&at| bit(&bytes, at)).count() as u64;
            prop_assert_eq!(count_range(&bytes, first, last), slow);
            let slow = (first..=last).find(|&at| bit(&bytes, at) == wanted);
            prop_assert_eq!(find(&bytes, wanted, first, last), slow);
        }
    }

    #[test]
    fn shorter_strings_are_padded_with_zero_bytes() {
        let (long, short): (&[u8], &[u8]) = (b"\xff\xf0\x0f", b"\x0f");
        for (operation, expected) in [
            (Operation::And, b"\x0f\0\0"),
            (Operation::Or, b"\xff\xf0\x0f"),
            (Operation::Xor, b"\xf0\xf0\x0f"),
        ] {
            assert_eq!(combine(operation, &[long, short]), expected, "{operation:?}");
            assert_eq!(combine(operation, &[short, long]), expected, "{operation:?}");
        }
        assert_eq!(combine(Operation::Not, &[long]), b"\0\x0f\xf0");
    }
}
