//! Writes that are valid only when replicas have them.
//!
//! `WAIT` answers for the writes of the connection it is sent on and for no other: on a fresh
//! connection it confirms everything although no replica has the write. So script, `WAIT` and the question for the
//! server's replication id go out as one batch on one socket. The batch either fails as a whole or
//! proves that the script ran on a server that is still in the same run, and how many replicas had it
//! in time.

use std::time::Duration;

use nagaya_resp::Frame;

use crate::connection::{Connection, Run};
use crate::error::Error;
use crate::reply;
use crate::script::{Form, Script, is_missing};

/// The confirmation that a write needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Replicas that must have the write; with 0 the primary alone decides.
    pub replicas: u32,
    /// How long they may take.
    pub limit: Duration,
}

impl Need {
    pub const PRIMARY_ONLY: Need = Need {
        replicas: 0,
        limit: Duration::ZERO,
    };
}

/// A script's reply with the proof that came with it.
#[derive(Clone, Debug)]
pub struct Confirmed {
    pub reply: Frame,
    /// Replicas that had the write when the wait ended.
    pub acknowledged: u32,
    /// Which socket carried all of it.
    pub connection_id: u64,
    pub run: Run,
}

impl Connection {
    /// Runs a script and waits until enough replicas have its writes.
    ///
    /// [`Error::TooFewReplicas`] means that it ran and may be lost in a failover; the caller undoes
    /// it or tries again. An error reply of the script comes back without waiting for replicas.
    pub async fn write_and_wait(
        &self,
        script: &Script,
        keys: &[&[u8]],
        args: &[&[u8]],
        need: Need,
    ) -> Result<Confirmed, Error> {
        let run = self.run().await?;
        let replicas = need.replicas.to_string();
        // WAIT takes 0 as no timeout.
        let wait_ms = need.limit.as_millis().max(1).to_string();
        let wait: [&[u8]; 3] = [b"WAIT", replicas.as_bytes(), wait_ms.as_bytes()];
        let info: [&[u8]; 2] = [b"INFO", b"replication"];
        for form in [Form::Hash, Form::Source] {
            let request = script.request(form, keys, args);
            let request = request.args();
            let mut batch: Vec<&[&[u8]]> = vec![&request];
            if need.replicas > 0 {
                batch.push(&wait);
            }
            batch.push(&info);
            let replies = self
                .pipeline_within(&batch, self.reply_limit() + need.limit)
                .await?;
            if is_missing(&replies[0]) && matches!(form, Form::Hash) {
                continue;
            }
            return self.confirm(script, replies, &run, need);
        }
        unreachable!("the second form is always returned")
    }

    fn confirm(
        &self,
        script: &Script,
        replies: Vec<Frame>,
        run: &Run,
        need: Need,
    ) -> Result<Confirmed, Error> {
        let mut replies = replies.into_iter();
        let mut next = |what: &str| {
            let reply = replies.next().expect("every request of a batch has a reply");
            self.checked(&[what.as_bytes()], reply)
        };
        let reply = next(script.name)?;
        let mut acknowledged = 0;
        if need.replicas > 0 {
            let reply = next("WAIT")?;
            let count = reply::unsigned(&reply).and_then(|count| u32::try_from(count).ok());
            acknowledged = count.ok_or_else(|| reply::unexpected("WAIT", &reply))?;
        }
        let info = next("INFO")?;
        let info = reply::text(&info).ok_or_else(|| reply::unexpected("INFO", &info))?;
        self.check_same_run(&info, run)?;
        if acknowledged < need.replicas {
            return Err(Error::TooFewReplicas {
                wanted: need.replicas,
                acknowledged,
                limit: need.limit,
            });
        }
        Ok(Confirmed {
            reply,
            acknowledged,
            connection_id: self.id(),
            run: run.clone(),
        })
    }

    /// Checks that the server is still in the run of the connection's beginning. A server can be demoted and
    /// promoted again without closing its connections; its replication id differs then.
    fn check_same_run(&self, info: &str, run: &Run) -> Result<(), Error> {
        let address = || self.address().to_owned();
        let role = reply::info_field(info, "role").unwrap_or("master");
        if role != "master" {
            self.close("the server is no longer the primary");
            let role = role.to_owned();
            return Err(Error::NotPrimary {
                address: address(),
                role,
            });
        }
        let now = reply::info_field(info, "master_replid").unwrap_or_default();
        if now == run.replication_id {
            return Ok(());
        }
        self.close("the server's run changed");
        Err(Error::RunChanged {
            address: address(),
            before: run.replication_id.clone(),
            after: now.to_owned(),
        })
    }
}
