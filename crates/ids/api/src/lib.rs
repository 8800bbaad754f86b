//! Ids over HTTP and gRPC: routers that are merged into the HTTP server.
//!
//! [`router`] is our own HTTP interface, [`katsubushi_router`] katsubushi's, [`grpc_router`]
//! both gRPC interfaces. All of them share the mint and the counters with the memcached
//! server in `nagaya-ids`.

mod grpc;
mod http;
mod problem;

/// Generated from the files under `proto/`.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    reason = "generated code"
)]
pub mod proto {
    pub mod nagaya {
        pub mod ids {
            pub mod v1 {
                include!(concat!(env!("OUT_DIR"), "/nagaya.ids.v1.rs"));
            }
        }
    }
    pub mod katsubushi {
        include!(concat!(env!("OUT_DIR"), "/katsubushi.rs"));
    }
}

use std::sync::Arc;

use nagaya_ids::mint::{Mint, MintError};
use nagaya_ids::server::{GetCounts, Stats};

pub use grpc::grpc_router;
pub use http::{katsubushi_router, router};

/// The most ids in one answer, over HTTP and gRPC alike; katsubushi's limit.
pub const IDS_MAX: u64 = 1000;

/// State shared by the handlers.
#[derive(Clone, Debug)]
pub struct IdsApi {
    pub mint: Arc<Mint>,
    pub stats: Arc<Stats>,
}

impl IdsApi {
    /// Makes ids and counts the request.
    async fn fetch(&self, count: u64) -> Result<Vec<u64>, MintError> {
        let mut ids = Vec::with_capacity(count as usize);
        let result = self.mint.fill_async(count as usize, &mut ids).await;
        self.stats.count_gets(match result {
            Ok(()) => GetCounts::hit(count),
            Err(_) => GetCounts::miss(),
        });
        result.map(|()| ids)
    }

    /// Makes ids as ranges, each a first id and how many, and counts the request.
    async fn fetch_ranges(&self, count: u64) -> Result<Vec<(u64, u64)>, MintError> {
        let result = self.mint.ranges(count).await;
        self.stats.count_gets(match result {
            Ok(_) => GetCounts::hit(count),
            Err(_) => GetCounts::miss(),
        });
        let blocks = result?.into_iter();
        Ok(blocks
            .map(|block| (block.clone().ids().start, block.count()))
            .collect())
    }
}
