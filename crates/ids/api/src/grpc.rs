//! `Generator` and `Stats`, under our names and under katsubushi's.

use axum::Router;
use nagaya_ids::mint::MintError;
use tonic::{Request, Response, Status};

use crate::proto::katsubushi::generator_server as katsubushi_generator;
use crate::proto::katsubushi::stats_server as katsubushi_stats;
use crate::proto::nagaya::ids::v1::generator_server::{Generator, GeneratorServer};
use crate::proto::nagaya::ids::v1::stats_server::{Stats, StatsServer};
use crate::proto::nagaya::ids::v1::{
    FetchMultiRequest, FetchMultiResponse, FetchRequest, FetchResponse, StatsRequest, StatsResponse,
};
use crate::{IDS_MAX, IdsApi};

/// The longest request, in bytes: requests hold one number at most.
const REQUEST_BYTES_MAX: usize = 1024;

/// Returns the gRPC services as routes; they need HTTP/2.
pub fn grpc_router(api: IdsApi) -> Router {
    let generator = GeneratorServer::new(api.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
    let stats = StatsServer::new(api.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
    let other_generator = katsubushi_generator::GeneratorServer::new(api.clone());
    let other_stats = katsubushi_stats::StatsServer::new(api);
    Router::new()
        .route_service("/nagaya.ids.v1.Generator/{method}", generator)
        .route_service("/nagaya.ids.v1.Stats/{method}", stats)
        .route_service(
            "/katsubushi.Generator/{method}",
            other_generator.max_decoding_message_size(REQUEST_BYTES_MAX),
        )
        .route_service(
            "/katsubushi.Stats/{method}",
            other_stats.max_decoding_message_size(REQUEST_BYTES_MAX),
        )
}

impl IdsApi {
    async fn fetch_one(&self) -> Result<Response<FetchResponse>, Status> {
        let ids = self.fetch(1).await.map_err(status)?;
        Ok(Response::new(FetchResponse { id: ids[0] }))
    }

    async fn fetch_multi(&self, n: u32) -> Result<Response<FetchMultiResponse>, Status> {
        let count = u64::from(n).max(1);
        if count > IDS_MAX {
            let words = format!("n must be at most {IDS_MAX}, not {n}");
            return Err(Status::invalid_argument(words));
        }
        let ids = self.fetch(count).await.map_err(status)?;
        Ok(Response::new(FetchMultiResponse { ids }))
    }

    fn stats_response(&self) -> Response<StatsResponse> {
        let stats = self.stats.snapshot(&self.mint);
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let (worker_id, fence) = stats.worker.unzip();
        Response::new(StatsResponse {
            pid: i32::try_from(stats.pid).unwrap_or(i32::MAX),
            uptime: signed(stats.uptime),
            time: signed(stats.time),
            version: stats.version,
            curr_connections: signed(stats.curr_connections),
            total_connections: signed(stats.total_connections),
            cmd_get: signed(stats.cmd_get),
            get_hits: signed(stats.get_hits),
            get_misses: signed(stats.get_misses),
            worker_id,
            fence,
        })
    }
}

/// Maps an error to a gRPC status. Clients retry on `UNAVAILABLE`.
fn status(error: MintError) -> Status {
    if error.is_passing() {
        Status::unavailable(error.to_string())
    } else {
        Status::failed_precondition(error.to_string())
    }
}

#[tonic::async_trait]
impl Generator for IdsApi {
    async fn fetch(&self, _request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        self.fetch_one().await
    }

    async fn fetch_multi(
        &self,
        request: Request<FetchMultiRequest>,
    ) -> Result<Response<FetchMultiResponse>, Status> {
        self.fetch_multi(request.into_inner().n).await
    }
}

#[tonic::async_trait]
impl katsubushi_generator::Generator for IdsApi {
    async fn fetch(&self, _request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        self.fetch_one().await
    }

    async fn fetch_multi(
        &self,
        request: Request<FetchMultiRequest>,
    ) -> Result<Response<FetchMultiResponse>, Status> {
        self.fetch_multi(request.into_inner().n).await
    }
}

#[tonic::async_trait]
impl Stats for IdsApi {
    async fn get(&self, _request: Request<StatsRequest>) -> Result<Response<StatsResponse>, Status> {
        Ok(self.stats_response())
    }
}

#[tonic::async_trait]
impl katsubushi_stats::Stats for IdsApi {
    async fn get(&self, _request: Request<StatsRequest>) -> Result<Response<StatsResponse>, Status> {
        Ok(self.stats_response())
    }
}
