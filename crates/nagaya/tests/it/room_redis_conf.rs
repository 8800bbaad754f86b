//! `nagaya room serve --redis-conf`: the engine alone, started as redis-server is.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use nagaya_testkit::{Folder, RespClient, wait};

use super::*;

/// A server that ends with the test.
struct Alone(Child);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn serve(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    command.args(["room", "serve", "--redis-conf"]).args(words);
    command
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_redis_conf_and_directives_start_an_engine_alone() {
    let folder = Folder::new("redis-conf");
    let file = folder.path().join("redis.conf");
    let lines = format!(
        "# as packages ship it\nbind 127.0.0.1 -::1\ndir {}\ntcp-backlog 511\nsave 900 1\nmaxmemory 1gb\n\
         hash-max-listpack-entries 7\n",
        folder.path().display()
    );
    std::fs::write(&file, lines).unwrap();
    let port = free_port();
    let child = serve(&[
        file.to_str().unwrap(),
        "--port",
        &port.to_string(),
        "--maxmemory",
        "64mb",
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    let _alone = Alone(child);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = wait::value("the server listens", LIMIT, || RespClient::connect(address).ok());
    client.set_timeout(LIMIT).unwrap();
    let mut ask = |words: &[&str]| format!("{:?}", client.cmd(words).unwrap());
    assert!(ask(&["CONFIG", "GET", "maxmemory"]).contains("67108864"));
    assert!(ask(&["HSETEX", "h", "EX", "100", "FIELDS", "1", "f", "v"]).contains('1'));
    assert!(folder.path().join("nagaya-data/room").exists());
}

#[test]
fn a_directive_that_cannot_be_kept_is_refused_with_its_line() {
    let folder = Folder::new("redis-conf-refused");
    let file = folder.path().join("redis.conf");
    std::fs::write(&file, "port 6399\n\nloadmodule /x.so\nnonsense 1\n").unwrap();
    let refused = serve(&[file.to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("redis.conf:3: `loadmodule`"), "{told}");
    assert!(told.contains("redis.conf:4: `nonsense`"), "{told}");
    assert!(!folder.path().join("nagaya-data").exists(), "nothing is made");
}
