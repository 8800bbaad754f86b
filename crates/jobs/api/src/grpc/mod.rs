//! gRPC `nagaya.jobs.v1`: unary equivalents of the REST calls, a work stream, and readers of the event log.

mod admin;
mod convert;
mod leases;
mod session;
mod status;
mod subscribe;
mod unary;
mod watch;
mod work;

use axum::Router;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::api::Api;
use crate::proto::jobs_server::{Jobs, JobsServer};
use crate::proto::{
    self, SubscribeRequest, SubscribeResponse, WatchRequest, WatchResponse, WorkRequest, WorkResponse,
};

/// Upper bound for the size of a message without its payloads.
const OVERHEAD_BYTES: usize = 64 << 10;

/// Builds the routes of the gRPC service, which needs HTTP/2.
pub(crate) fn router(api: Api) -> Router {
    let bytes_max = api.config.body_bytes_max + OVERHEAD_BYTES;
    let server = JobsServer::new(GrpcService(api))
        .max_decoding_message_size(bytes_max)
        .max_encoding_message_size(usize::MAX);
    Router::new().route_service("/nagaya.jobs.v1.Jobs/{method}", server)
}

/// The gRPC service.
struct GrpcService(Api);

type Answers<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Implements unary calls by the functions of the same name in the module that is named.
macro_rules! unary {
    ($($module:ident::$name:ident: $request:ident -> $response:ident),* $(,)?) => {
        #[tonic::async_trait]
        impl Jobs for GrpcService {
            $(async fn $name(
                &self,
                request: Request<proto::$request>,
            ) -> Result<Response<proto::$response>, Status> {
                let (metadata, _, message) = request.into_parts();
                let headers = metadata.into_headers();
                let answer = $module::$name(&self.0, &headers, message).await;
                answer.map(Response::new).map_err(Status::from)
            })*

            type WorkStream = Answers<WorkResponse>;

            async fn work(
                &self,
                request: Request<Streaming<WorkRequest>>,
            ) -> Result<Response<Self::WorkStream>, Status> {
                work::open(self.0.clone(), request).await
            }

            type WatchStream = Answers<WatchResponse>;

            async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
                watch::open(self.0.clone(), request).await
            }

            type SubscribeStream = Answers<SubscribeResponse>;

            async fn subscribe(
                &self,
                request: Request<Streaming<SubscribeRequest>>,
            ) -> Result<Response<Self::SubscribeStream>, Status> {
                subscribe::open(self.0.clone(), request).await
            }
        }
    };
}

unary! {
    unary::enqueue: EnqueueRequest -> EnqueueResponse,
    unary::enqueue_batch: EnqueueBatchRequest -> EnqueueBatchResponse,
    unary::claim: ClaimRequest -> ClaimResponse,
    unary::extend: ExtendRequest -> ExtendResponse,
    unary::progress: ProgressRequest -> ProgressResponse,
    unary::log: LogRequest -> LogResponse,
    unary::complete: CompleteRequest -> CompleteResponse,
    unary::complete_batch: CompleteBatchRequest -> CompleteBatchResponse,
    unary::fail: FailRequest -> FailResponse,
    unary::fail_batch: FailBatchRequest -> FailBatchResponse,
    unary::get: GetRequest -> Job,
    unary::list: ListRequest -> ListResponse,
    unary::cancel: CancelRequest -> CancelResponse,
    unary::retry: RetryRequest -> RetryResponse,
    unary::list_queues: ListQueuesRequest -> ListQueuesResponse,
    unary::pause_queue: PauseQueueRequest -> PauseQueueResponse,
    admin::edit: EditRequest -> EditResponse,
    admin::delete: DeleteRequest -> DeleteResponse,
    admin::cancel_many: CancelManyRequest -> CancelManyResponse,
    admin::retry_many: RetryManyRequest -> RetryManyResponse,
    admin::get_queue: GetQueueRequest -> GetQueueResponse,
    admin::put_queue: PutQueueRequest -> PutQueueResponse,
    admin::delete_queue: DeleteQueueRequest -> DeleteQueueResponse,
    admin::list_schedules: ListSchedulesRequest -> ListSchedulesResponse,
    admin::put_schedule: PutScheduleRequest -> PutScheduleResponse,
    admin::delete_schedule: DeleteScheduleRequest -> DeleteScheduleResponse,
    admin::run_schedule: RunScheduleRequest -> RunScheduleResponse,
    admin::list_deliveries: ListDeliveriesRequest -> ListDeliveriesResponse,
    admin::replay_deliveries: ReplayDeliveriesRequest -> ReplayDeliveriesResponse,
    leases::extend_batch: ExtendBatchRequest -> ExtendBatchResponse,
    leases::release: ReleaseRequest -> ReleaseResponse,
    leases::release_batch: ReleaseBatchRequest -> ReleaseBatchResponse,
    leases::wait: WaitRequest -> WaitResponse,
    leases::get_version: GetVersionRequest -> GetVersionResponse,
}
