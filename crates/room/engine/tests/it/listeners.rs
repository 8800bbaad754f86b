//! The other ways in: a unix socket, and TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use nagaya_config::Listen;
use nagaya_engine::{Bound, Engine, Error, RoomConfig};
use nagaya_testkit::Folder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::harness::*;

#[test]
fn a_unix_socket_is_served_and_removed() {
    let folder = Folder::new("unix");
    let path = folder.path().join("room.sock");
    let engine = engine_with(|config| config.unix_socket = Some(path.clone()));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"SET key value\r\nGET key\r\nQUIT\r\n").unwrap();
    assert_eq!(read_to_end(&mut stream), b"+OK\r\n$5\r\nvalue\r\n+OK\r\n");
    // The data is the same as over TCP.
    assert_eq!(ask(&mut client(&engine), &["EXISTS", "key"]).int(), 1);
    engine.stop();
    assert!(!path.exists());
}

#[test]
fn a_socket_left_by_a_crash_is_replaced_and_a_live_one_is_not() {
    let folder = Folder::new("unix");
    let path = folder.path().join("room.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let _engine = engine_with(|config| config.unix_socket = Some(path.clone()));
    let mut config = RoomConfig::default();
    config.listen.0.set_port(0);
    config.unix_socket = Some(path.clone());
    assert!(matches!(Bound::bind(config), Err(Error::Bind { .. })));
    assert!(UnixStream::connect(&path).is_ok());
}

/// A certificate authority of our own, and what it signed.
struct Authority {
    folder: Folder,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new("tls");
        folder.write("ca.pem", &issuer.pem());
        Authority { folder, issuer }
    }

    /// Signs a certificate for a name and returns the paths of certificate and key.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let cert = self.folder.write(&format!("{name}.pem"), &certificate.pem());
        (
            cert,
            self.folder.write(&format!("{name}.key"), &key.serialize_pem()),
        )
    }

    fn engine(&self, change: impl FnOnce(&mut RoomConfig)) -> Engine {
        let (cert, key) = self.sign("localhost");
        engine_with(|config| {
            config.tls_listen = Some(Listen("127.0.0.1:0".parse().unwrap()));
            config.tls_cert = Some(cert);
            config.tls_key = Some(key);
            change(config);
        })
    }

    fn connect(&self, address: SocketAddr, identity: Option<(PathBuf, PathBuf)>) -> Tls {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.folder.path().join("ca.pem")).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
                    .unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(
            ClientConnection::new(Arc::new(config), name).unwrap(),
            connect(address),
        )
    }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn tls_address(engine: &Engine) -> SocketAddr {
    let address = engine
        .addresses()
        .iter()
        .find_map(|address| address.strip_suffix(" (TLS)"))
        .unwrap();
    address.parse().unwrap()
}

#[test]
fn tls_clients_are_served_whatever_the_size_of_a_value() {
    let authority = Authority::new();
    let engine = authority.engine(|_| ());
    let mut stream = authority.connect(tls_address(&engine), None);
    let value = vec![b'x'; 3 << 20];
    stream
        .write_all(&request(&["SET".as_bytes(), b"key", &value]))
        .unwrap();
    stream.write_all(&request(&["GET", "key"]).repeat(10)).unwrap();
    let one = [b"$3145728\r\n", value.as_slice(), b"\r\n"].concat();
    let mut reply = vec![0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply, b"+OK\r\n");
    for _ in 0..10 {
        let mut reply = vec![0; one.len()];
        stream.read_exact(&mut reply).unwrap();
        assert!(reply == one);
    }
    stream.write_all(b"QUIT\r\n").unwrap();
    assert_eq!(read_to_end(&mut stream), b"+OK\r\n");
}

#[test]
fn plain_bytes_at_the_tls_port_are_turned_away() {
    let authority = Authority::new();
    let engine = authority.engine(|_| ());
    for bytes in [
        &b"PING\r\n"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01",
        b"\x16\x03\x01\xff\xff",
        &[0xff; 1000],
    ] {
        let answer = exchange(tls_address(&engine), bytes);
        assert!(
            !answer.starts_with(b"+") && !answer.starts_with(b"-"),
            "{}",
            answer.escape_ascii()
        );
    }
    still_serves(&engine);
    let mut stream = authority.connect(tls_address(&engine), None);
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_tls_hello_at_the_plain_port_does_no_harm() {
    let authority = Authority::new();
    let engine = authority.engine(|_| ());
    let mut stream = authority.connect(engine.tcp_address(), None);
    let sent = stream.write_all(b"PING\r\n");
    // The hello holds no line end, or one that makes it an unknown command; either way no handshake comes.
    stream.sock.shutdown(std::net::Shutdown::Write).ok();
    assert!(sent.is_err() || stream.read(&mut [0; 1]).is_err());
    still_serves(&engine);
}

#[test]
fn clients_without_the_certificate_that_is_asked_for_are_refused() {
    let authority = Authority::new();
    let ca = authority.folder.path().join("ca.pem");
    let engine = authority.engine(|config| config.tls_client_ca = Some(ca));
    let ping = |mut stream: Tls| {
        stream.write_all(b"PING\r\nQUIT\r\n").ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        answer
    };
    assert_eq!(
        ping(authority.connect(tls_address(&engine), Some(authority.sign("client")))),
        b"+PONG\r\n+OK\r\n"
    );
    assert_eq!(ping(authority.connect(tls_address(&engine), None)), b"");
    let stranger = Authority::new();
    assert_eq!(
        ping(authority.connect(tls_address(&engine), Some(stranger.sign("client")))),
        b""
    );
    still_serves(&engine);
}

#[test]
fn tls_files_that_do_not_serve_are_named() {
    let authority = Authority::new();
    let (cert, key) = authority.sign("localhost");
    let check = |cert: Option<PathBuf>, key: Option<PathBuf>, expected: &str| {
        let mut config = RoomConfig::default();
        config.listen.0.set_port(0);
        config.tls_listen = Some(Listen("127.0.0.1:0".parse().unwrap()));
        (config.tls_cert, config.tls_key) = (cert, key);
        let Err(error) = Bound::bind(config) else {
            panic!("taken without {expected}")
        };
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(None, Some(key.clone()), "tls_cert (not set)");
    check(Some(cert.clone()), None, "tls_key (not set)");
    check(
        Some(key.clone()),
        Some(key.clone()),
        "holds no usable certificate",
    );
    check(Some(cert.clone()), Some(cert), "holds no usable private key");
}

#[test]
fn requests_and_the_end_of_the_stream_are_seen_when_they_come_together() {
    let engine = engine();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(engine.tcp_address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(b"PING\r\nPING\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "+PONG\r\n+PONG\r\n");
    }
}
