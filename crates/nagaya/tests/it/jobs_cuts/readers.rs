//! Those who ask: long polls, streams and sockets.

use super::*;
use futures_util::{SinkExt, StreamExt};
use nagaya_jobs_api::proto::jobs_client::JobsClient;
use nagaya_jobs_api::proto::subscribe_request::Message as Asked;
use nagaya_jobs_api::proto::subscribe_response::Message as Told;
use nagaya_jobs_api::proto::watch_response::Message as Watched;
use nagaya_jobs_api::proto::{
    Ack, Event, EventFilter, EventKind, SubscribeHello, SubscribeRequest, WatchRequest,
};
use tokio::net::TcpStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::{Channel, Endpoint};

/// Makes a test of a reader on each store.
macro_rules! survives {
    ($($name:ident by $read:ident),* $(,)?) => {
        mod sqlite {
            use super::*;

            $(#[test]
            fn $name() {
                storm(&Site::on_sqlite(&[]), None, &Inbox::default(), $read);
            })*
        }

        mod postgres {
            use super::*;

            $(#[test]
            fn $name() {
                storm(&Site::on_postgres(&[]), None, &Inbox::default(), $read);
            })*
        }
    };
}

survives! {
    long_polls_survive_cuts_and_kills by long_poll,
    server_sent_events_survive_cuts_and_kills by server_sent_events,
    websockets_survive_cuts_and_kills by websocket,
    grpc_watch_survives_cuts_and_kills by grpc_watch,
    grpc_subscribe_survives_cuts_and_kills by grpc_subscribe,
}

/// Each submitter asks for its own job. They find the job by its number, as a submitter that has lost the answer to
/// its registration does.
async fn long_poll(endpoints: Endpoints, inbox: &Inbox) {
    const SUBMITTERS: usize = 50;
    let client = &endpoints.client();
    let submitter = |first: usize| async move {
        for number in (first..JOBS).step_by(SUBMITTERS) {
            let id = loop {
                let made = client.try_send("POST", "/v1/jobs", Some(job(number, None).to_string()), &[]);
                if let Ok(Ok(answer)) = timeout(LIMIT, made).await
                    && answer.status < 300
                {
                    break answer.body["id"].as_str().unwrap().to_owned();
                }
                sleep(REST).await;
            };
            let result = loop {
                let path = format!("/v1/jobs/{id}?wait=30s");
                let span = Duration::from_millis(200 + rand::random::<u64>() % 2_000);
                // Dropping the call cuts its connection.
                match timeout(span, client.try_send("GET", &path, None, &[])).await {
                    Ok(Ok(answer)) if answer.status == 200 && answer.body["state"] == "succeeded" => {
                        break answer.body["result"].clone();
                    }
                    _ => sleep(REST).await,
                }
            };
            inbox.take(&id, &id, result);
        }
    };
    futures_util::future::join_all((0..SUBMITTERS).map(submitter)).await;
}

async fn server_sent_events(endpoints: Endpoints, inbox: &Inbox) {
    let client = endpoints.client();
    let mut last = "0".to_owned();
    while !inbox.is_full() {
        let Ok(mut stream) = client.try_events("/v1/events?kind=succeeded", Some(&last)).await else {
            sleep(REST).await;
            continue;
        };
        for _ in 0..stretch() {
            if inbox.is_full() {
                break;
            }
            let Some(sent) = stream.next().await else {
                break;
            };
            assert_eq!(sent.event, "succeeded");
            let job = sent.data["job"].as_str().unwrap();
            inbox.take(&sent.id, job, sent.data["result"].clone());
            last = sent.id;
        }
    }
}

async fn websocket(endpoints: Endpoints, inbox: &Inbox) {
    while !inbox.is_full() {
        if read_socket(endpoints, inbox).await.is_none() {
            sleep(REST).await;
        }
    }
}

/// Reads by a subscription and acknowledges; some acknowledgements are lost with the connection.
async fn read_socket(endpoints: Endpoints, inbox: &Inbox) -> Option<()> {
    let stream = TcpStream::connect(endpoints.rest).await.ok()?;
    let url = format!("ws://{}/v1/ws", endpoints.rest);
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.ok()?;
    let hello = json!({"type": "hello", "subscription": "s", "kinds": ["succeeded"], "after": "0"});
    socket.send(Message::text(hello.to_string())).await.ok()?;
    for _ in 0..stretch() {
        if inbox.is_full() {
            break;
        }
        let Message::Text(text) = timeout(LIMIT, socket.next()).await.ok()??.ok()? else {
            continue;
        };
        let message: Value = serde_json::from_str(&text).unwrap();
        let event = &message["event"];
        let Some(id) = event["id"].as_str() else {
            assert_eq!(message["type"], "welcome", "{message}");
            continue;
        };
        inbox.take(id, event["job"].as_str().unwrap(), event["result"].clone());
        let ack = json!({"type": "ack", "id": id}).to_string();
        socket.feed(Message::text(ack)).await.ok()?;
        if rand::random::<u8>() < 64 {
            socket.flush().await.ok()?;
        }
    }
    Some(())
}

async fn connect(endpoints: Endpoints) -> Option<JobsClient<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{}", endpoints.grpc)).unwrap();
    endpoint.connect().await.ok().map(JobsClient::new)
}

fn successes() -> Option<EventFilter> {
    Some(EventFilter {
        kinds: vec![EventKind::Succeeded.into()],
        ..EventFilter::default()
    })
}

fn take(inbox: &Inbox, event: &Event) {
    let result = serde_json::from_slice(&event.result.as_ref().unwrap().data).unwrap();
    inbox.take(event.seq, event.job, result);
}

async fn grpc_watch(endpoints: Endpoints, inbox: &Inbox) {
    let mut last = 0;
    while !inbox.is_full() {
        if watch(endpoints, inbox, &mut last).await.is_none() {
            sleep(REST).await;
        }
    }
}

async fn watch(endpoints: Endpoints, inbox: &Inbox, last: &mut u64) -> Option<()> {
    let request = WatchRequest {
        filter: successes(),
        after: Some(*last),
        ..WatchRequest::default()
    };
    let mut stream = connect(endpoints).await?.watch(request).await.ok()?.into_inner();
    for _ in 0..stretch() {
        if inbox.is_full() {
            break;
        }
        let told = timeout(LIMIT, stream.message()).await.ok()?.ok()??;
        if let Some(Watched::Event(event)) = told.message {
            take(inbox, &event);
            *last = event.seq;
        }
    }
    Some(())
}

async fn grpc_subscribe(endpoints: Endpoints, inbox: &Inbox) {
    while !inbox.is_full() {
        if subscribe(endpoints, inbox).await.is_none() {
            sleep(REST).await;
        }
    }
}

async fn subscribe(endpoints: Endpoints, inbox: &Inbox) -> Option<()> {
    let (asks, asked) = tokio::sync::mpsc::channel(1_000);
    let hello = Asked::Hello(SubscribeHello {
        name: "s".into(),
        filter: successes(),
        after: Some(0),
        outstanding_max: 64,
        ack_deadline_ms: 1_000,
    });
    asks.send(SubscribeRequest { message: Some(hello) }).await.ok()?;
    let mut client = connect(endpoints).await?;
    let mut stream = client
        .subscribe(ReceiverStream::new(asked))
        .await
        .ok()?
        .into_inner();
    for _ in 0..stretch() {
        if inbox.is_full() {
            break;
        }
        let told = timeout(LIMIT, stream.message()).await.ok()?.ok()??;
        let Some(Told::Event(event)) = told.message else {
            continue;
        };
        take(inbox, &event);
        let ack = Asked::Ack(Ack {
            seqs: vec![event.seq],
            up_to: 0,
        });
        asks.send(SubscribeRequest { message: Some(ack) }).await.ok()?;
    }
    Some(())
}
