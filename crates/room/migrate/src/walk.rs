//! All keys of a server, or of all servers of a cluster, by SCAN.

use nagaya_redis_client::{Client, Connection, reply};

use crate::Error;

const COUNT: &[u8] = b"1000";
const START: &[u8] = b"0";

pub(crate) struct Walk {
    /// Servers to walk; the last one is at work.
    left: Vec<Connection>,
    cursor: Vec<u8>,
    pattern: Option<Vec<u8>>,
}

impl Walk {
    pub(crate) async fn start(client: &Client, pattern: Option<Vec<u8>>) -> Result<Walk, Error> {
        let mut left = Vec::new();
        for primary in client.primaries().await? {
            left.push(client.dedicated_to(&primary.server).await?);
        }
        Ok(Walk {
            left,
            cursor: START.to_vec(),
            pattern,
        })
    }

    /// Returns some keys, possibly none, possibly some that came before; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let Some(connection) = self.left.last() else {
            return Ok(None);
        };
        let mut args: Vec<&[u8]> = vec![b"SCAN", &self.cursor, b"COUNT", COUNT];
        if let Some(pattern) = &self.pattern {
            args.extend([b"MATCH".as_slice(), pattern]);
        }
        let answer = connection.call(&args).await?;
        let nonsense = Error::Nonsense { command: "SCAN" };
        let [cursor, keys] = reply::items(&answer) else {
            return Err(nonsense);
        };
        let cursor = reply::bytes(cursor).ok_or(nonsense)?.to_vec();
        let names: Option<Vec<Vec<u8>>> = reply::items(keys)
            .iter()
            .map(|key| reply::bytes(key).map(<[u8]>::to_vec))
            .collect();
        if cursor == START {
            self.left.pop();
        }
        self.cursor = cursor;
        names.map(Some).ok_or(Error::Nonsense { command: "SCAN" })
    }

    /// Returns how many keys all servers say to have.
    pub(crate) async fn total(&self) -> u64 {
        let mut total = 0;
        for connection in &self.left {
            // Only a hint: a server that does not tell has none.
            let answer = connection.call(&[b"DBSIZE"]).await.ok();
            total += answer.as_ref().and_then(reply::unsigned).unwrap_or(0);
        }
        total
    }
}
