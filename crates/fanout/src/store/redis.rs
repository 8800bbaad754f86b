//! Redis in any topology: a hash per request.
//!
//! Both writes are scripts, so that a field and the expiry are set atomically: a hash can neither be left
//! without an expiry nor reappear after it expired. The deadline of an answer is checked inside the script on
//! the server's own clock, so the server refuses a write that it executes late after a freeze.

use std::time::Duration;

use futures_util::future::BoxFuture;
use nagaya_redis_client::{Client, Error, Frame, Options, RedisUrl, Script, reply};

use super::{Batch, LATE_DETAIL, Record, Store, StoreError, Stored, Written};
use crate::names::{COMPLETE, ENDPOINTS, OUTCOME_PREFIX};
use crate::outcome::{Outcome, State};

static RECORD: Script = Script::new(
    "fanout_record",
    include_str!("../../lua/record.lua"),
    &["request"],
    &["ttl_ms", "fields..."],
);
static ANSWERS: Script = Script::new(
    "fanout_answers",
    include_str!("../../lua/answers.lua"),
    &["request"],
    &["ttl_ms", "complete", "late", "answers..."],
);

pub struct RedisStore {
    kind: &'static str,
    client: Client,
    ttl_ms: String,
    late: String,
}

impl RedisStore {
    /// Creates the store. Connects on first use.
    pub fn new(url: RedisUrl, expire_in: Duration, timeout: Duration) -> Result<RedisStore, StoreError> {
        RedisStore::named("redis", url, expire_in, timeout)
    }

    /// As [`new`](RedisStore::new), for the embedded engine.
    pub fn embedded(url: RedisUrl, expire_in: Duration, timeout: Duration) -> Result<RedisStore, StoreError> {
        RedisStore::named("embedded", url, expire_in, timeout)
    }

    fn named(
        kind: &'static str,
        url: RedisUrl,
        expire_in: Duration,
        timeout: Duration,
    ) -> Result<RedisStore, StoreError> {
        let options = Options {
            connect_limit: timeout,
            reply_limit: timeout,
            client_name: "nagaya-fanout".to_owned(),
        };
        let late = Outcome::new(State::StoreFailed, Duration::ZERO).with_detail(LATE_DETAIL);
        Ok(RedisStore {
            kind,
            client: Client::new(url, options)?,
            ttl_ms: expire_in.as_millis().max(1).to_string(),
            late: late.to_json(),
        })
    }

    /// Runs a script by its hash, and in full if the server does not know it yet.
    async fn eval(&self, script: &Script, id: &str, args: &[&[u8]]) -> Result<Frame, Error> {
        let mut request: Vec<&[u8]> = Vec::with_capacity(args.len() + 4);
        request.extend([b"EVALSHA", script.sha().as_bytes(), b"1", id.as_bytes()]);
        request.extend(args);
        match self.client.call(id.as_bytes(), &request).await {
            Err(error)
                if error
                    .server_error()
                    .is_some_and(|error| error.code() == "NOSCRIPT") =>
            {
                request[0] = b"EVAL";
                request[1] = script.source.as_bytes();
                self.client.call(id.as_bytes(), &request).await
            }
            other => other,
        }
    }

    async fn record_now(&self, record: &Record) -> Result<Option<u64>, StoreError> {
        let shed: Vec<(String, String)> = record
            .shed
            .iter()
            .map(|(name, outcome)| (format!("{OUTCOME_PREFIX}{name}"), outcome.to_json()))
            .collect();
        let mut args: Vec<&[u8]> = vec![
            self.ttl_ms.as_bytes(),
            b"_id",
            record.id.as_bytes(),
            b"_method",
            record.method.as_bytes(),
            b"_url",
            record.url.as_bytes(),
            ENDPOINTS.as_bytes(),
            record.endpoints.as_bytes(),
        ];
        args.extend(
            shed.iter()
                .flat_map(|(field, json)| [field.as_bytes(), json.as_bytes()]),
        );
        let frame = self.eval(&RECORD, &record.id, &args).await?;
        let time = reply::unsigned(&frame).ok_or_else(|| reply::unexpected(RECORD.name, &frame))?;
        Ok(Some(time))
    }

    async fn write_now(&self, batch: &Batch) -> Result<Vec<Written>, StoreError> {
        let complete = batch.complete_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let texts: Vec<(String, String)> = batch
            .answers
            .iter()
            .map(|answer| {
                // Only bodies can be late: a failure is recorded whenever possible.
                let limit = answer.by_store_ms.filter(|_| answer.body.is_some());
                let limit = limit.map(|ms| ms.to_string()).unwrap_or_default();
                (answer.outcome.to_json(), limit)
            })
            .collect();
        let mut args: Vec<&[u8]> = Vec::with_capacity(3 + 5 * texts.len());
        args.extend([self.ttl_ms.as_bytes(), complete.as_bytes(), self.late.as_bytes()]);
        for (answer, (outcome, limit)) in batch.answers.iter().zip(&texts) {
            let (has_body, body): (&[u8], &[u8]) = match &answer.body {
                Some(body) => (b"1", body),
                None => (b"0", b""),
            };
            args.extend([
                answer.name.as_bytes(),
                outcome.as_bytes(),
                limit.as_bytes(),
                has_body,
                body,
            ]);
        }
        let frame = self.eval(&ANSWERS, &batch.id, &args).await?;
        let (Frame::Array(items), count) = (&frame, batch.answers.len()) else {
            return Err(reply::unexpected(ANSWERS.name, &frame).into());
        };
        if items.is_empty() {
            return Ok(vec![Written::Gone; count]);
        }
        let written = items.iter().take(count).map(|item| match reply::int(item) {
            Some(1) => Written::Stored,
            _ => Written::Late,
        });
        Ok(written.collect())
    }

    async fn read_now(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        let read = self
            .client
            .call(id.as_bytes(), &[b"HGETALL", id.as_bytes()])
            .await;
        let frame = match read {
            // Somebody else's key, which happens to look like an id.
            Err(error) if is_wrong_type(&error) => return Ok(None),
            read => read?,
        };
        let fields = reply::pairs(&frame);
        if fields.is_empty() {
            return Ok(None);
        }
        let is_request = fields.iter().any(|(field, value)| {
            reply::bytes(field) == Some(b"_id") && reply::bytes(value) == Some(id.as_bytes())
        });
        if !is_request {
            return Ok(None);
        }
        let mut stored = Stored::default();
        for (field, value) in fields {
            let (Some(field), Some(value)) = (reply::text(field), reply::bytes(value)) else {
                return Err(reply::unexpected("HGETALL", &frame).into());
            };
            let text = || String::from_utf8_lossy(value);
            match field.as_str() {
                "_id" => (),
                "_method" => stored.method = text().into_owned(),
                "_url" => stored.url = text().into_owned(),
                // A request stored by serinin has none of the following.
                ENDPOINTS => stored.endpoints = serde_json::from_slice(value).unwrap_or_default(),
                COMPLETE => stored.complete_ms = text().parse().ok(),
                field => match field.strip_prefix(OUTCOME_PREFIX) {
                    Some(name) => {
                        let outcome = Outcome::from_json(value).ok_or_else(|| StoreError::Unreadable {
                            what: field.to_owned(),
                        })?;
                        stored.outcomes.insert(name.to_owned(), outcome);
                    }
                    None => drop(stored.bodies.insert(field.to_owned(), value.to_vec().into())),
                },
            }
        }
        Ok(Some(stored))
    }
}

fn is_wrong_type(error: &Error) -> bool {
    error
        .server_error()
        .is_some_and(|error| error.code() == "WRONGTYPE")
}

impl Store for RedisStore {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        Box::pin(self.record_now(record))
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(self.write_now(batch))
    }

    fn publish<'a>(&'a self, channel: &'a str, message: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let publish = ["PUBLISH", channel, message];
            self.client.call(channel.as_bytes(), &publish).await?;
            Ok(())
        })
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(self.read_now(id))
    }
}
