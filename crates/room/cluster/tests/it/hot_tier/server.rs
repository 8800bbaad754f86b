//! A server as the protocol wants it, as small as it gets: one connection, leases counted from sending, keys
//! registered once per lease ahead of their first write, late replies not believed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{Clock, SystemClock};
use nagaya_cluster::hot_tier::run::RunDigest;
use nagaya_cluster::hot_tier::scripts::{self, Form};
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_redis_client::Run;
use nagaya_testkit::{Reply, RespClient};
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::protocol::{Tokens, Touched};
use nagaya_tiering::tag::tag_of;

pub(crate) struct Server {
    address: SocketAddr,
    limits: Limits,
    clock: SystemClock,
    tokens: Tokens,
    loader: Loader,
    link: Option<Link>,
    leases: HashMap<Vec<u8>, Lease>,
}

struct Link {
    client: RespClient,
    run: Run,
}

struct Lease {
    until: Duration,
    registered: HashSet<Vec<u8>>,
}

impl Server {
    pub(crate) fn new(address: SocketAddr, tier: &RedisHotTier, cold: Arc<dyn ColdTier>) -> Server {
        let clock = SystemClock;
        let config = LoaderConfig {
            poll: Duration::from_millis(1),
            ..LoaderConfig::default()
        };
        let loader = Loader::new(Arc::new(tier.clone()), cold, Arc::new(clock), config);
        Server {
            address,
            limits: tier.limits(),
            clock,
            tokens: Tokens::default(),
            loader,
            link: None,
            leases: HashMap::new(),
        }
    }

    /// Sets a key. An error means that it may have happened or not.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let reply = self.run(key, true, &[b"SET", key, value])?;
        if reply == Reply::ok() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{reply:?}")))
        }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self.run(key, false, &[b"GET", key])? {
            Reply::Nil => Ok(None),
            Reply::Bulk(value) => Ok(Some(value)),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    fn run(&mut self, key: &[u8], is_write: bool, command: &[&[u8]]) -> io::Result<Reply> {
        let ended = self.try_run(key, is_write, command);
        if ended.is_err() {
            // Requests on a broken connection are lost, and so are its leases.
            self.link = None;
            self.leases.clear();
        }
        ended
    }

    fn try_run(&mut self, key: &[u8], is_write: bool, command: &[&[u8]]) -> io::Result<Reply> {
        let tag = tag_of(key);
        self.take_lease(tag)?;
        let Server {
            leases,
            link,
            clock,
            limits,
            tokens,
            ..
        } = self;
        let lease = leases.get_mut(tag).expect("it was taken");
        let client = &mut link.as_mut().expect("the lease came over it").client;
        let registers = is_write && lease.registered.insert(key.to_vec());
        if registers {
            let call = scripts::register(tag, tokens.draw(), [key]);
            client.send(&call.words(Form::Source))?;
        }
        client.send(command)?;
        if registers {
            let answer = client.receive()?;
            if answer != Reply::Bulk(b"registered".to_vec()) {
                return Err(io::Error::other(format!("{answer:?}")));
            }
        }
        let reply = client.receive()?;
        if clock.steady() > lease.until + limits.allowance {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the reply came after the lease",
            ));
        }
        Ok(reply)
    }

    fn take_lease(&mut self, tag: &[u8]) -> io::Result<()> {
        // Drift is no matter within one process; a small margin still stands for it.
        let margin = self.limits.lease / 20;
        loop {
            let now = self.clock.steady();
            if self.leases.get(tag).is_some_and(|lease| now < lease.until) {
                return Ok(());
            }
            match self.touch(tag)? {
                Touched::Granted => {
                    let lease = Lease {
                        until: now + self.limits.lease - margin,
                        registered: HashSet::new(),
                    };
                    self.leases.insert(tag.to_vec(), lease);
                }
                Touched::Cold | Touched::Suspect | Touched::Wait => {
                    self.loader.load(tag).map_err(io::Error::other)?;
                }
            }
        }
    }

    fn touch(&mut self, tag: &[u8]) -> io::Result<Touched> {
        if self.link.is_none() {
            let mut client = RespClient::connect(self.address)?;
            let run = run_of(&mut client)?;
            self.link = Some(Link { client, run });
        }
        let link = self.link.as_mut().expect("it was made just now");
        let call = scripts::touch(&RunDigest::from(&link.run), tag);
        let answer = link.client.cmd(&call.words(Form::Source))?;
        if run_of(&mut link.client)? != link.run {
            return Err(io::Error::other("the node lives anew"));
        }
        match answer {
            Reply::Bulk(word) => scripts::touched(&word).ok_or_else(|| io::Error::other("not a word")),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }
}

fn run_of(client: &mut RespClient) -> io::Result<Run> {
    let text = client.cmd(&["INFO"])?.text();
    let field = |name| {
        nagaya_redis_client::reply::info_field(&text, name)
            .unwrap_or_default()
            .to_owned()
    };
    Ok(Run {
        run_id: field("run_id"),
        replication_id: field("master_replid"),
    })
}
