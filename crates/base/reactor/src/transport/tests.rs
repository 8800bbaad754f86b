use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::*;
use crate::{Events, Interest, Listener, Poller};

/// Both ends of a connection, neither of which blocks.
struct Pair {
    client: Transport,
    server: Transport,
    poller: Poller,
    events: Events,
}

impl Pair {
    fn new(tls: bool) -> Pair {
        let (server_config, client_config) = configs();
        let listener = Listener::tcp("127.0.0.1:0", tls.then_some(server_config)).unwrap();
        let address = Address::Tcp(listener.tcp_address().unwrap());
        let tls = tls.then(|| {
            let name = ServerName::try_from("localhost").unwrap();
            ClientConnection::new(client_config, name).unwrap()
        });
        let client = Transport::connecting(&address, tls, Duration::from_secs(5)).unwrap();
        let poller = Poller::new().unwrap();
        let mut events = Events::with_capacity(8);
        poller.add(&listener, 0, Interest::READ).unwrap();
        poller.wait(&mut events, Duration::from_secs(5));
        let server = listener.accept().unwrap();
        drop(listener);
        poller.add(&client, 1, Interest::READ_WRITE.edge()).unwrap();
        poller.add(&server, 2, Interest::READ_WRITE.edge()).unwrap();
        Pair {
            client,
            server,
            poller,
            events,
        }
    }

    /// Sends everything from the client, reads everything at the server, in turns.
    fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (mut sent, mut received, mut scratch) = (0, Vec::new(), vec![0; 64 << 10]);
        while received.len() < bytes.len() {
            while sent < bytes.len() || self.client.wants_write() {
                match self.client.write(&bytes[sent..]) {
                    Ok(written) => sent += written,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            loop {
                match self.server.read(&mut scratch) {
                    Ok(read) => received.extend_from_slice(&scratch[..read]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            // The server's half of the handshake reaches the client through a read.
            match self.client.read(&mut scratch) {
                Ok(read) => panic!("{read} bytes from a silent server"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            self.poller.wait(&mut self.events, Duration::from_millis(100));
        }
        received
    }
}

fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

#[test]
fn more_than_sockets_and_buffers_hold_arrives_in_order() {
    for tls in [false, true] {
        let bytes = pattern(8 << 20);
        assert!(Pair::new(tls).send(&bytes) == bytes, "TLS: {tls}");
    }
}

#[test]
fn several_tls_records_are_read_at_once() {
    let mut pair = Pair::new(true);
    pair.send(b"handshake");
    // Each write is a record of its own, and a large one is several.
    for _ in 0..3 {
        assert_eq!(pair.client.write(b"record").unwrap(), 6);
    }
    let bytes = pattern(40_000);
    assert_eq!(pair.client.write(&bytes).unwrap(), bytes.len());
    let (mut received, mut scratch) = (Vec::new(), vec![0; 64 << 10]);
    while received.len() < 18 + bytes.len() {
        pair.poller.wait(&mut pair.events, Duration::from_millis(100));
        // A read takes all that is decrypted: nothing stays in between unreported.
        while let Ok(read) = pair.server.read(&mut scratch) {
            received.extend_from_slice(&scratch[..read]);
        }
    }
    assert!(received.starts_with(b"recordrecordrecord"));
    assert!(received[18..] == bytes);
}

#[test]
fn a_full_socket_takes_no_more_until_it_is_read() {
    for tls in [false, true] {
        let mut pair = Pair::new(tls);
        pair.send(b"handshake");
        let bytes = pattern(64 << 10);
        let mut sent = 0;
        let full = loop {
            match pair.client.write(&bytes) {
                Ok(written) => sent += written,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        assert_eq!(pair.client.wants_write(), tls, "encrypted bytes wait inside");
        pair.poller.wait(&mut pair.events, Duration::ZERO);
        let (mut received, mut scratch) = (0, vec![0; 64 << 10]);
        let mut writable = false;
        while received < sent {
            while let Ok(read) = pair.server.read(&mut scratch) {
                received += read;
            }
            pair.poller.wait(&mut pair.events, Duration::from_millis(100));
            writable |= pair
                .events
                .iter()
                .any(|event| event.token == 1 && event.ready.is_writable());
            if pair.client.wants_write() {
                match pair.client.write(&[]) {
                    Ok(written) => assert_eq!(written, 0),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
        assert!(writable, "room to write is reported");
        assert_eq!(received, sent);
    }
}

#[test]
fn a_half_closed_client_still_gets_its_reply() {
    let listener = Listener::tcp("127.0.0.1:0", None).unwrap();
    let mut client = TcpStream::connect(listener.tcp_address().unwrap()).unwrap();
    let mut server = listener.accept().unwrap();
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(8);
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    poller.add(&server, 1, Interest::READ.edge()).unwrap();
    let mut scratch = [0; 64];
    let mut received = Vec::new();
    loop {
        poller.wait(&mut events, Duration::from_secs(5));
        let ready = events.iter().next().expect("bytes or the end").ready;
        assert!(ready.is_readable());
        if let Ok(read) = server.read(&mut scratch) {
            received.extend_from_slice(&scratch[..read]);
        }
        if ready.is_hung_up() {
            break;
        }
    }
    assert_eq!(received, b"question");
    assert_eq!(server.read(&mut scratch).unwrap(), 0, "the end is read once more");
    assert_eq!(server.write(b"answer").unwrap(), 6);
    drop(server);
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "answer");
}

#[test]
fn the_end_of_a_tls_stream_is_announced() {
    let mut pair = Pair::new(true);
    pair.send(b"handshake");
    drop(pair.client);
    pair.poller.wait(&mut pair.events, Duration::from_secs(5));
    // Without `close_notify` this would be an error: the stream might have been cut.
    assert_eq!(pair.server.read(&mut [0; 64]).unwrap(), 0);
}

#[test]
fn a_refused_connection_fails_at_the_first_write_or_read() {
    let listener = Listener::tcp("127.0.0.1:0", None).unwrap();
    let address = Address::Tcp(listener.tcp_address().unwrap());
    drop(listener);
    let refused = match Transport::connecting(&address, None, Duration::from_secs(5)) {
        Err(error) => error,
        Ok(mut transport) => {
            let poller = Poller::new().unwrap();
            let mut events = Events::with_capacity(8);
            poller.add(&transport, 1, Interest::READ_WRITE.edge()).unwrap();
            poller.wait(&mut events, Duration::from_secs(5));
            assert!(events.iter().next().unwrap().ready.is_hung_up());
            transport.read(&mut [0; 8]).err().unwrap()
        }
    };
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}
