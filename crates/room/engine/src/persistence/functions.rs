//! Functions belong to no tag: they are stored as one metadata entry of the cold tier.

use nagaya_exec::server::Server;
use nagaya_keyspace::residency::Tiering;
use nagaya_tiering::cold::{ColdError, ColdTier};

/// The entry's name. Its value is the log position in eight bytes, then the reply of FUNCTION DUMP.
const FACT: &str = "functions";

/// The state of the functions in the cold tier.
#[derive(Default)]
pub(super) struct SavedFunctions {
    saved: Option<Vec<u8>>,
}

impl SavedFunctions {
    /// Saves the functions if they have changed since the last save.
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

/// Reads the saved functions and their log position.
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
