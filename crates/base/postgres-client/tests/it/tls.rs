use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nagaya_postgres_client::{Error, Kind};
use nagaya_testkit::Postgres;

use crate::{block_on, pool};

/// A server with a certificate for `localhost` signed by itself, the certificate's file, and another file
/// with a certificate of another authority.
struct Secured {
    postgres: Postgres,
    certificate: PathBuf,
    stranger: PathBuf,
}

fn start() -> Secured {
    let postgres = Postgres::start();
    let url = postgres.url("postgres");
    let data = PathBuf::from(postgres.psql(&url, "SHOW data_directory"));
    let certificate = write_pair(&data, "server");
    let stranger = write_pair(&data, "stranger");
    postgres.psql(&url, "ALTER SYSTEM SET ssl = on");
    postgres.psql(&url, "SELECT pg_reload_conf()");
    let on = || postgres.try_psql(&url, "SHOW ssl").as_deref() == Ok("on");
    nagaya_testkit::wait::until("ssl is on", crate::PATIENCE, on);
    Secured {
        postgres,
        certificate,
        stranger,
    }
}

fn write_pair(folder: &Path, name: &str) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let owner = std::fs::metadata(folder).unwrap();
    let texts = [("crt", certificate.pem()), ("key", key.serialize_pem())];
    for (extension, text) in texts {
        let path = folder.join(format!("{name}.{extension}"));
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    folder.join(format!("{name}.crt"))
}

impl Secured {
    /// Returns whether the session is encrypted.
    fn ask(&self, host: &str, settings: &str) -> Result<bool, Error> {
        let port = self.postgres.port();
        let url = format!("postgres://postgres@{host}:{port}/postgres?{settings}");
        block_on(async {
            let pool = pool(&url);
            let connection = pool.get().await?;
            let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            Ok(connection.query_one(sql, &[]).await?.get(0))
        })
    }
}

#[test]
fn every_mode_checks_what_it_says() {
    let server = start();
    let trusted = format!("sslrootcert={}", server.certificate.display());
    let distrusted = format!("sslrootcert={}", server.stranger.display());
    assert!(!server.ask("localhost", "sslmode=disable").unwrap());
    assert!(server.ask("localhost", "").unwrap());
    assert!(server.ask("127.0.0.1", "sslmode=require").unwrap());
    assert!(
        server
            .ask("127.0.0.1", &format!("sslmode=verify-ca&{trusted}"))
            .unwrap()
    );
    assert!(
        server
            .ask("localhost", &format!("sslmode=verify-full&{trusted}"))
            .unwrap()
    );
    for (host, settings) in [
        ("127.0.0.1", format!("sslmode=verify-full&{trusted}")),
        ("localhost", format!("sslmode=verify-full&{distrusted}")),
        ("localhost", format!("sslmode=verify-ca&{distrusted}")),
        ("localhost", format!("sslmode=require&{distrusted}")),
    ] {
        let error = server.ask(host, &settings).unwrap_err();
        assert_eq!(
            error.kind(),
            Kind::Credentials,
            "{host} {settings}: {}",
            error.chain()
        );
    }
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_required() {
    let server = nagaya_testkit::shared::postgres();
    let error = block_on(async {
        let pool = pool(&format!("{}?sslmode=require", server.url("postgres")));
        pool.get().await.map(drop).unwrap_err()
    });
    assert_eq!(error.kind(), Kind::Credentials, "{}", error.chain());
}
