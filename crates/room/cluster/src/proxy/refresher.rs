//! Keeps the layout of the servers up to date.
//!
//! Workers ask when a redirect or a lost connection shows that something has
//! changed. Requests that come during a reading share it. It runs on its own
//! thread because it resolves names and opens sockets.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use nagaya_reactor::Address;
use nagaya_redis_client::{Client, Endpoint};
use parking_lot::{Condvar, Mutex};

use super::inbox::{Inbox, Item};
use super::model::layout::{Layout, NodeInfo};

/// The shortest time between two readings, so that a broken cluster is not flooded with them.
const PAUSE: Duration = Duration::from_millis(50);

/// How workers ask for a new layout.
#[derive(Default)]
pub(crate) struct Refresher {
    asked: Mutex<Asked>,
    wake: Condvar,
}

#[derive(Default)]
struct Asked {
    refresh: bool,
    stop: bool,
}

impl Refresher {
    /// Asks for a new layout, which all workers get.
    pub(crate) fn ask(&self) {
        let mut asked = self.asked.lock();
        if !asked.refresh {
            asked.refresh = true;
            self.wake.notify_all();
        }
    }

    pub(crate) fn stop(&self) {
        self.asked.lock().stop = true;
        self.wake.notify_all();
    }

    /// Reads the layout until told to stop: at the start, when asked, and at intervals.
    pub(crate) fn run(&self, client: &Client, every: Duration, inboxes: &[Arc<Inbox>]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let reason = format!("no runtime: {error}");
                inboxes
                    .iter()
                    .for_each(|inbox| inbox.push(Item::LayoutFailed(reason.clone())));
                return;
            }
        };
        loop {
            self.asked.lock().refresh = false;
            let layout = runtime.block_on(client.layout());
            let layout = layout
                .map_err(|error| error.chain())
                .and_then(|ranges| resolve(&ranges));
            let has_failed = layout.is_err();
            match layout {
                Ok(layout) => {
                    let layout = Arc::new(layout);
                    inboxes
                        .iter()
                        .for_each(|inbox| inbox.push(Item::Layout(Arc::clone(&layout))));
                }
                Err(reason) => {
                    inboxes
                        .iter()
                        .for_each(|inbox| inbox.push(Item::LayoutFailed(reason.clone())));
                }
            }
            let mut asked = self.asked.lock();
            self.wake.wait_while_for(&mut asked, |asked| !asked.stop, PAUSE);
            let rest = if has_failed { PAUSE * 4 } else { every };
            self.wake
                .wait_while_for(&mut asked, |asked| !asked.stop && !asked.refresh, rest);
            if asked.stop {
                return;
            }
        }
    }
}

fn resolve(ranges: &[nagaya_redis_client::SlotRange]) -> Result<Layout, String> {
    let mut layout = Layout::default();
    for range in ranges {
        let name = range.owner.to_string();
        let known = layout.nodes.iter().position(|node| node.name == name);
        let node = match known {
            Some(known) => known,
            None => {
                layout.nodes.push(node(&range.owner, name)?);
                layout.nodes.len() - 1
            }
        };
        layout.ranges.push((range.first, range.last, node));
    }
    Ok(layout)
}

fn node(owner: &Endpoint, name: String) -> Result<NodeInfo, String> {
    match owner {
        Endpoint::Unix(path) => Ok(NodeInfo {
            host: name.clone(),
            name,
            address: Address::Unix(path.clone()),
        }),
        Endpoint::Tcp { host, port } => {
            let addresses = (host.as_str(), *port).to_socket_addrs();
            let mut addresses = addresses.map_err(|error| format!("{name}: {error}"))?;
            let address: SocketAddr = addresses.next().ok_or_else(|| format!("{name} has no address"))?;
            Ok(NodeInfo {
                name,
                host: host.clone(),
                address: Address::Tcp(address),
            })
        }
    }
}
