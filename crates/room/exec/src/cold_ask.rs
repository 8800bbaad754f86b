//! Questions to the cold tier that a command cannot wait for under its locks.
//!
//! A handler that needs an answer calls [`ask`]. The first time there is none:
//! the handler returns without a reply, a thread of the engine asks the cold tier, and
//! the request runs again, now with the answer. A command inside a script or
//! transaction must not wait, so it asks the cold tier in place.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::cold_query::{ColdAnswer, ColdQuery};
use nagaya_keyspace::residency::{Tiering, reply_to};

use crate::ctx::Ctx;
use crate::session::Session;

/// Asks the cold tier. Nothing means: not yet, return at once, the request will run again.
pub fn ask(ctx: &mut Ctx<'_, '_>, query: ColdQuery) -> Result<Option<ColdAnswer>, CommandError> {
    let Some(tiering) = ctx.db.tiering else {
        return Ok(None);
    };
    if let Some(answer) = ctx.session.shared.answers.lock().take() {
        return Ok(Some(answer));
    }
    if ctx.session.nesting > 0 {
        let answer = reply_to(&*tiering.cold, &query);
        let answer = answer.map_err(|error| CommandError::coded(format!("TRYAGAIN {error}")))?;
        return Ok(Some(answer));
    }
    ctx.session.query = Some(query);
    Ok(None)
}

impl Session {
    /// Returns whether the current request has asked the cold tier and has no answer yet: running it again
    /// would be in vain.
    pub fn awaits_answer(&self) -> bool {
        self.asks && self.shared.answers.lock().is_awaited()
    }

    /// Ends the current request: an answer that still comes for it is dropped.
    pub fn ends_asking(&mut self) {
        if std::mem::take(&mut self.asks) {
            self.shared.answers.lock().forget();
        }
    }

    /// Returns whether everything that was written before this request is saved (SAVE); if not, the request
    /// has to run again once the next save has ended.
    pub fn is_saved(&mut self, tiering: &Tiering) -> bool {
        let wanted = *self.save_up_to.get_or_insert_with(|| tiering.log_end());
        if tiering.checkpoint() >= wanted {
            self.save_up_to = None;
            return true;
        }
        (tiering.save_soon)();
        self.query = Some(ColdQuery::Saved);
        false
    }
}
