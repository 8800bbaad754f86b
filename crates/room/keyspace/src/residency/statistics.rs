//! What is remembered of large tags between two surveys.

use nagaya_tiering::cold::TagRow;
use parking_lot::Mutex;

/// Tags that are remembered for having been large.
pub(super) const KNOWN_MAX: usize = 256;

/// How far the walks have got, and what they have met.
#[derive(Default)]
pub struct TagStatistics(pub(super) Mutex<Notes>);

#[derive(Default)]
pub(super) struct Notes {
    pub(super) place: WalkPlace,
    /// Tags in memory that were large when last seen.
    pub(super) large: Vec<Vec<u8>>,
    /// The cold tier's last row of the latest page.
    pub(super) cold_after: Option<Vec<u8>>,
    /// Tags that were large on disk when last seen.
    pub(super) large_cold: Vec<Vec<u8>>,
}

/// A place between two keys in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkPlace {
    pub space: usize,
    pub shard: usize,
    pub cursor: u64,
}

impl TagStatistics {
    /// What to ask the cold tier next: tags to look at again, and where its page begins.
    pub fn next_page(&self) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let notes = self.0.lock();
        (notes.large_cold.clone(), notes.cold_after.clone())
    }

    /// Notes what the cold tier said, and returns the largest of it.
    pub fn note_page(&self, known: Vec<TagRow>, page: Vec<TagRow>) -> Vec<TagRow> {
        let mut notes = self.0.lock();
        notes.cold_after = page.last().map(|row| row.tag.clone());
        let mut rows: Vec<TagRow> = known.into_iter().chain(page).filter(|row| row.keys > 0).collect();
        rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.tag.cmp(&b.tag)));
        rows.dedup_by(|a, b| a.tag == b.tag);
        rows.truncate(KNOWN_MAX);
        notes.large_cold = rows.iter().map(|row| row.tag.clone()).collect();
        rows
    }
}
