//! What the proxy asks of its surroundings, answered by the desks.

use nagaya_tiering::access::Use;

use super::access_desk::AccessDesk;
use super::load_desk::LoadDesk;
use crate::proxy::{Accesses, LoadDone, Loads};

impl Loads for LoadDesk {
    fn load(&self, tag: &[u8], done: LoadDone) {
        LoadDesk::load(self, tag, done);
    }
}

impl Accesses for AccessDesk {
    fn note(&self, tag: &[u8], used: Use) {
        AccessDesk::note(self, tag, used);
    }
}
