//! TLS, unix sockets, and more than one thread.

use std::io::Write;

use nagaya_testkit::{Redis, Reply, shared, wait};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::support::{LIMIT, before_redis, cluster_url, config, connect, start};

/// A server's certificate for 127.0.0.1 and the authority that signed it, as files.
struct Certificates {
    folder: nagaya_testkit::Folder,
}

impl Certificates {
    fn new() -> Certificates {
        let folder = nagaya_testkit::Folder::new("proxy-tls");
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = server.signed_by(&key, &issuer).unwrap();
        let certificates = Certificates { folder };
        certificates.write("ca.pem", &ca_certificate.pem());
        certificates.write("server.pem", &certificate.pem());
        certificates.write("server.key", &key.serialize_pem());
        certificates
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let mut file = std::fs::File::create(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

#[test]
fn servers_are_spoken_to_through_tls() {
    let certificates = Certificates::new();
    let port = nagaya_testkit::free_port();
    let redis = Redis::with_config(&[
        &format!("tls-port {port}"),
        &format!("tls-cert-file {}", certificates.path("server.pem")),
        &format!("tls-key-file {}", certificates.path("server.key")),
        &format!("tls-ca-cert-file {}", certificates.path("ca.pem")),
        "tls-auth-clients no",
    ]);
    let proxy = start(config(&format!(
        "rediss://127.0.0.1:{port}?ca={}",
        certificates.path("ca.pem")
    )));
    let mut client = connect(&proxy);
    let value = vec![b'v'; 3 << 20];
    assert_eq!(client.0.cmd(&[b"SET", &b"tls"[..], &value]).unwrap(), Reply::ok());
    assert_eq!(client.0.cmd(&["GET", "tls"]).unwrap(), Reply::Bulk(value));
    for number in 0..2000 {
        client.send(&format!("SET tls:{number} {number}"));
    }
    for _ in 0..2000 {
        assert_eq!(client.receive(), Reply::ok());
    }
    assert_eq!(redis.cmd(&["GET", "tls:1999"]), Reply::bulk("1999"));
}

#[test]
fn a_server_whose_certificate_nobody_vouches_for_is_refused() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let port = nagaya_testkit::free_port();
    let _redis = Redis::with_config(&[
        &format!("tls-port {port}"),
        &format!("tls-cert-file {}", certificates.path("server.pem")),
        &format!("tls-key-file {}", certificates.path("server.key")),
        &format!("tls-ca-cert-file {}", certificates.path("ca.pem")),
        "tls-auth-clients no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}?ca={}", others.path("ca.pem"));
    let mut config = config(&url);
    config.retry_for = std::time::Duration::from_millis(300);
    let proxy = start(config);
    let reply = connect(&proxy).say("SET k v");
    assert!(
        reply.error().is_some_and(|text| text.starts_with("CLUSTERDOWN")),
        "{reply:?}"
    );
}

#[test]
fn a_server_is_reached_through_its_socket() {
    let folder = nagaya_testkit::Folder::new("proxy-unix");
    let path = folder.path().join("redis.sock").display().to_string();
    let redis = Redis::with_config(&[&format!("unixsocket {path}")]);
    let proxy = start(config(&format!("redis+unix://{path}?db=3")));
    connect(&proxy).expect("SET unix:k 1", "+OK");
    let mut direct = redis.client();
    direct.cmd(&["SELECT", "3"]).unwrap();
    assert_eq!(direct.cmd(&["GET", "unix:k"]).unwrap(), Reply::bulk("1"));
}

#[test]
fn clients_come_through_tls_and_through_a_socket() {
    use rustls_pki_types::pem::PemObject;
    let certificates = Certificates::new();
    let pem = |name: &str| std::fs::read(certificates.path(name)).unwrap();
    let chain = rustls_pki_types::CertificateDer::from_pem_slice(&pem("server.pem")).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(&pem("server.key")).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let socket = certificates.folder.path().join("proxy.sock");
    let mut front = config(&shared::redis().url());
    front.unix_socket = Some(socket.clone());
    front.tls_listen = Some(nagaya_cluster::proxy::TlsListen {
        address: "127.0.0.1:0".parse().unwrap(),
        config: std::sync::Arc::new(tls),
    });
    let service = nagaya_cluster::proxy::Service::bind(front).unwrap();
    let tls_address = service.tls_address().unwrap();
    let front = service.start().unwrap();
    // A proxy is a client as good as any.
    let through_tls = start(config(&format!(
        "rediss://{tls_address}?ca={}",
        certificates.path("ca.pem")
    )));
    let through_socket = start(config(&format!("redis+unix://{}", socket.display())));
    let mut client = connect(&through_tls);
    let value = vec![b'v'; 2 << 20];
    assert_eq!(
        client.0.cmd(&[b"SET", &b"front"[..], &value]).unwrap(),
        Reply::ok()
    );
    assert_eq!(
        connect(&through_socket).0.cmd(&["GET", "front"]).unwrap(),
        Reply::Bulk(value)
    );
    drop((through_tls, through_socket));
    front.stop();
    assert!(!socket.exists());
}

#[test]
fn several_threads_serve_one_address() {
    let mut config = config(&cluster_url(shared::cluster()));
    config.io_threads = 3;
    let proxy = start(config);
    let mut clients: Vec<_> = (0..6).map(|_| connect(&proxy)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.expect(&format!("SET threads:{number} {number}"), "+OK");
        client.expect("SUBSCRIBE threads:news", r#"["subscribe", "threads:news", 1]"#);
    }
    connect(&proxy).say("PUBLISH threads:news once");
    connect(&proxy).say("PUBLISH threads:news twice");
    for client in &mut clients {
        assert_eq!(client.receive().items()[2], Reply::bulk("once"));
        assert_eq!(client.receive().items()[2], Reply::bulk("twice"));
    }
    let mut asker = connect(&proxy);
    wait::until("those who published are gone", LIMIT, || {
        asker.say("CLIENT LIST").text().lines().count() == 7
    });
}

#[test]
fn clients_beyond_the_limit_are_told_so() {
    let mut config = config(&shared::redis().url());
    config.max_clients = 2;
    let proxy = start(config);
    let (mut first, mut second) = (connect(&proxy), connect(&proxy));
    first.expect("PING", "+PONG");
    second.expect("PING", "+PONG");
    let mut third = connect(&proxy);
    assert_eq!(
        third.0.receive().unwrap().error(),
        Some("ERR max number of clients reached")
    );
    drop(first);
    nagaya_testkit::wait::until("there is room again", crate::support::LIMIT, || {
        let mut client = connect(&proxy);
        client
            .0
            .cmd(&["PING"])
            .is_ok_and(|reply| reply == Reply::Simple("PONG".into()))
    });
}

#[test]
fn a_client_that_is_killed_loses_its_connection() {
    let proxy = before_redis(shared::redis());
    let (mut victim, mut killer) = (connect(&proxy), connect(&proxy));
    let id = victim.say("CLIENT ID").int();
    killer.expect(&format!("CLIENT KILL ID {id}"), "1");
    assert!(victim.0.receive().is_err());
}
