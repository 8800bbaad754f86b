//! Which run of a node wrote a tag's state.
//!
//! A script could read it itself: INFO may be called from Lua. The two sections that it needs cost about
//! as much as the rest of a touch (some 10 us each when measured), so the caller
//! passes the run that its connection began with, and reads the node's run again behind a batch of
//! scripts, in the same pipeline, where the shorter of the two is enough. A node never returns to a run it
//! has left, so if the second reading equals the first, every script in between ran in that run;
//! otherwise none of the replies counts. What those scripts did meanwhile is harmless: they acted on
//! tags of the earlier run, which every reader now finds suspect and compares with the cold copy before use.

use std::fmt;

use nagaya_redis_client::Run;

/// How many characters of each id are kept. Both are 40 random hex digits.
const KEPT: usize = 16;

/// A node's run as the scripts keep it: half as long, so that a tag's meta stays in its compact form, which
/// ends at values of 64 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunDigest(String);

impl RunDigest {
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<&Run> for RunDigest {
    fn from(run: &Run) -> RunDigest {
        let part = |id: &str| id.chars().take(KEPT).collect::<String>();
        RunDigest(part(&run.run_id) + &part(&run.replication_id))
    }
}

impl fmt::Display for RunDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
