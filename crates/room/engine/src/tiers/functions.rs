//! Functions belong to no tag: they are kept as one fact of the cold tier.

use nagaya_commands::server::Server;
use nagaya_commands::tiering::Tiering;
use nagaya_tiering::cold::{ColdError, ColdTier};

/// The fact's name. Its value is the log's position, eight bytes, and what FUNCTION DUMP gives.
const FACT: &str = "functions";

/// What the cold tier has of the functions.
#[derive(Default)]
pub(super) struct SavedFunctions {
    saved: Option<Vec<u8>>,
}

impl SavedFunctions {
    /// Saves the functions if they have changed since the last time.
    pub(super) fn save(
        &mut self,
        server: &Server,
        tiering: &Tiering,
        position: u64,
    ) -> Result<(), ColdError> {
        let dump = server.scripts.dump_functions();
        if self.saved.as_ref() == Some(&dump) {
            return Ok(());
        }
        let value = [&position.to_le_bytes()[..], &dump].concat();
        tiering.cold.set_fact(FACT, &value)?;
        self.saved = Some(dump);
        Ok(())
    }
}

/// Reads the functions that were saved, and the position of the log that they are of.
pub(super) fn load(cold: &dyn ColdTier) -> Result<Option<(u64, Vec<u8>)>, ColdError> {
    let Some(value) = cold.fact(FACT)? else {
        return Ok(None);
    };
    let Some((position, dump)) = value.split_first_chunk::<8>() else {
        return Err(ColdError::Damaged {
            what: "the saved functions are cut short".to_owned(),
        });
    };
    Ok(Some((u64::from_le_bytes(*position), dump.to_vec())))
}
