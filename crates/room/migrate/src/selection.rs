use nagaya_command_spec::glob;

/// Which keys of a file or server are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// A pattern as SCAN's MATCH takes it; without one, all.
    pub pattern: Option<Vec<u8>>,
    /// One database of a file; without one, the only one that there is.
    pub db: Option<u32>,
}

impl Selection {
    pub(crate) fn has_name(&self, name: &[u8]) -> bool {
        self.pattern
            .as_deref()
            .is_none_or(|pattern| glob::matches(pattern, name))
    }

    pub(crate) fn has_db(&self, db: u32) -> bool {
        self.db.is_none_or(|wanted| wanted == db)
    }
}
