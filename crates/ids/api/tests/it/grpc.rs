use nagaya_ids_api::proto::katsubushi;
use nagaya_ids_api::proto::nagaya::ids::v1::generator_client::GeneratorClient;
use nagaya_ids_api::proto::nagaya::ids::v1::stats_client::StatsClient;
use nagaya_ids_api::proto::nagaya::ids::v1::{FetchMultiRequest, FetchRequest, StatsRequest};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::TestServer;

async fn connect(server: &TestServer) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    endpoint.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_and_many_ids_are_fetched() {
    let server = TestServer::start().await;
    let mut client = GeneratorClient::new(connect(&server).await);
    let one = client.fetch(FetchRequest {}).await.unwrap().into_inner().id;
    let many = client
        .fetch_multi(FetchMultiRequest { n: 1000 })
        .await
        .unwrap()
        .into_inner()
        .ids;
    assert_eq!(many.len(), 1000);
    assert!(many[0] > one && many.is_sorted_by(|a, b| a < b));
    assert_eq!(server.api.mint.layout().decode(one).unwrap().worker, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_ids_has_limits() {
    let server = TestServer::start().await;
    let mut client = GeneratorClient::new(connect(&server).await);
    let none = client.fetch_multi(FetchMultiRequest { n: 0 }).await.unwrap();
    assert_eq!(none.into_inner().ids.len(), 1);
    let error = client
        .fetch_multi(FetchMultiRequest { n: 1001 })
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.message(), "n must be at most 1000, not 1001");
}

#[tokio::test(flavor = "multi_thread")]
async fn katsubushis_clients_find_their_services() {
    let server = TestServer::start().await;
    let channel = connect(&server).await;
    let mut client = katsubushi::generator_client::GeneratorClient::new(channel.clone());
    assert!(client.fetch(FetchRequest {}).await.unwrap().into_inner().id > 0);
    let many = client.fetch_multi(FetchMultiRequest { n: 5 }).await.unwrap();
    assert_eq!(many.into_inner().ids.len(), 5);
    let mut client = katsubushi::stats_client::StatsClient::new(channel);
    let stats = client.get(StatsRequest {}).await.unwrap().into_inner();
    assert_eq!((stats.cmd_get, stats.get_hits), (2, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_number_is_unavailable_and_counted() {
    let server = TestServer::start().await;
    server.api.mint.set_permit(None);
    let channel = connect(&server).await;
    let mut client = GeneratorClient::new(channel.clone());
    let error = client.fetch(FetchRequest {}).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::Unavailable, "no worker number is held yet")
    );
    let stats = StatsClient::new(channel)
        .get(StatsRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!((stats.get_misses, stats.worker_id), (1, None));
    assert_eq!(stats.version, "1.2.3");
}
