//! Messages, and the news that some were missed.

use std::sync::Arc;

use nagaya_redis_client::{Event, Subscriber, Topics};
use nagaya_testkit::{Redis, TcpProxy};

use crate::{PATIENCE, block_on, client};

async fn next(subscriber: &mut Subscriber) -> Event {
    tokio::time::timeout(PATIENCE, subscriber.next())
        .await
        .expect("an event in time")
}

fn message(channel: &str, payload: &str) -> Event {
    Event::Message {
        channel: channel.into(),
        payload: payload.into(),
    }
}

#[test]
fn a_subscriber_tells_of_its_gap_and_goes_on() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    block_on(async {
        let client = Arc::new(client(&format!("redis://{}", proxy.address())));
        let topics = Topics {
            channels: vec!["a".into(), "b".into()],
            patterns: vec!["news.*".into()],
        };
        let mut subscriber = Subscriber::start(client, topics);
        assert_eq!(next(&mut subscriber).await, Event::Ready);
        redis.cmd(&["PUBLISH", "b", "1"]);
        redis.cmd(&["PUBLISH", "news.x", "2"]);
        assert_eq!(next(&mut subscriber).await, message("b", "1"));
        assert_eq!(next(&mut subscriber).await, message("news.x", "2"));
        proxy.reset();
        redis.cmd(&["PUBLISH", "a", "missed"]);
        let mut event = next(&mut subscriber).await;
        if event == message("a", "missed") {
            // It came through before the reset did.
            event = next(&mut subscriber).await;
        }
        assert_eq!(event, Event::Gap);
        redis.cmd(&["PUBLISH", "a", "3"]);
        assert_eq!(next(&mut subscriber).await, message("a", "3"));
        redis.restart();
        assert_eq!(next(&mut subscriber).await, Event::Gap);
    });
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let redis = Redis::start();
    redis.kill9();
    block_on(async {
        let topics = Topics {
            channels: vec!["a".into()],
            ..Topics::default()
        };
        let mut subscriber = Subscriber::start(Arc::new(client(&redis.url())), topics);
        tokio::task::block_in_place(|| redis.restart());
        assert_eq!(next(&mut subscriber).await, Event::Ready);
    });
}
