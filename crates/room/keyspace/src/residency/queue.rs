//! Names in a row, for little memory and less time than a set of them.

/// Names, oldest first.
#[derive(Default)]
pub struct NameQueue {
    bytes: Vec<u8>,
    count: usize,
}

impl NameQueue {
    /// Adds a name.
    #[inline]
    pub fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(name);
        self.count += 1;
    }

    /// Returns how many names there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the names, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let (name, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            rest = after;
            Some(name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_order() {
        let mut names = NameQueue::default();
        assert!(names.is_empty());
        let wanted: [&[u8]; 4] = [b"a", b"", b"\x00\xff{x}", &[7; 300]];
        wanted.iter().for_each(|name| names.push(name));
        assert_eq!(names.len(), 4);
        assert_eq!(names.iter().collect::<Vec<_>>(), wanted);
    }
}
