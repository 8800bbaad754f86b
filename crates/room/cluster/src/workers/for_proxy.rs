//! The traits of the proxy, implemented by the workers.

use nagaya_tiering::access::Use;

use super::access_log::AccessLog;
use super::load_pool::LoadPool;
use crate::proxy::{Accesses, LoadDone, Loads};

impl Loads for LoadPool {
    fn load(&self, tag: &[u8], done: LoadDone) {
        LoadPool::load(self, tag, done);
    }
}

impl Accesses for AccessLog {
    fn note(&self, tag: &[u8], used: Use) {
        AccessLog::note(self, tag, used);
    }
}
