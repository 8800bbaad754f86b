use std::time::Duration;

use nagaya_postgres_client::{Event, Listener, Notifier};
use nagaya_testkit::{TcpProxy, shared};
use tokio::time::timeout;

use crate::{PATIENCE, block_on, impatient_pool, pool};

async fn next(listener: &mut Listener) -> Event {
    timeout(PATIENCE, listener.next()).await.unwrap()
}

fn notified(channel: &str, payload: &str) -> Event {
    Event::Notified {
        channel: channel.into(),
        payload: payload.into(),
    }
}

#[test]
fn hints_arrive_once_however_often_they_were_asked_for() {
    let pool = pool(&shared::postgres().create_database());
    block_on(async {
        let channels = vec!["Jobs; odd name".to_owned(), "other".to_owned()];
        let mut listener = Listener::start(pool.connector().clone(), channels);
        assert_eq!(next(&mut listener).await, Event::Ready);
        let notifier = Notifier::start(pool.clone(), Duration::from_millis(1));
        for _ in 0..100 {
            assert!(notifier.notify("other", "a"));
        }
        assert!(notifier.notify("unheard", "b"));
        assert_eq!(next(&mut listener).await, notified("other", "a"));
        // Rounds before this one may have sent "a" again, but not a hundred times.
        assert!(notifier.notify("Jobs; odd name", "end"));
        let mut repeats = 0;
        while next(&mut listener).await != notified("Jobs; odd name", "end") {
            repeats += 1;
        }
        assert!(repeats < 5, "{repeats} repeats");
        assert!(!notifier.notify("other", &"x".repeat(8000)));
    });
}

#[test]
fn a_break_becomes_a_gap_and_listening_goes_on() {
    let postgres = shared::postgres();
    let proxy = TcpProxy::start(postgres.address());
    let pool = impatient_pool(&format!("postgres://postgres@{}/postgres", proxy.address()));
    block_on(async {
        let mut listener = Listener::start(pool.connector().clone(), vec!["kit_gap".into()]);
        assert_eq!(next(&mut listener).await, Event::Ready);
        proxy.reset();
        assert_eq!(next(&mut listener).await, Event::Gap);
        // A machine without power says nothing; the listener asks and finds out.
        proxy.half_open();
        let silence = timeout(Duration::from_secs(6), listener.next()).await;
        assert!(silence.is_err(), "{silence:?}");
        proxy.restore();
        assert_eq!(next(&mut listener).await, Event::Gap);
        postgres.psql(&postgres.url("postgres"), "NOTIFY kit_gap, 'x'");
        assert_eq!(next(&mut listener).await, notified("kit_gap", "x"));
    });
}
