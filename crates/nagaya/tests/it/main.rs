//! The binary as its users meet it: started, asked, stopped, misused.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod access;
mod browser;
mod clients;
mod config;
mod demo;
mod deploy;
mod docs;
mod fanout_house;
mod fanout_serve;
mod fleet;
mod fleet_http;
mod ground;
mod help;
mod house_api;
mod http;
mod ids_commands;
mod ids_house;
mod ids_run;
mod ids_serve;
mod jobs_cuts;
mod jobs_deliveries;
mod jobs_sequences;
mod jobs_serve;
mod jobs_site;
mod jobs_tools;
mod jobs_work;
mod observability;
mod panics;
mod rights;
mod room_defects;
mod room_disk_full;
mod room_doctor;
mod room_fidelity;
mod room_kill;
mod room_memory;
mod room_migrate;
mod room_redis_conf;
mod room_tools;
mod room_torture;
mod room_users;
mod shell_blocks;
mod shutdown;
mod slow_clients;
mod start_failures;
mod status;
mod tls;
mod token;
mod traces;

use nagaya_testkit::{Folder, Launch, Nagaya, NagayaBuilder, Process};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_nagaya");

/// Long enough for a loaded machine; nothing waits this long when all is well.
const LIMIT: Duration = Duration::from_secs(30);

/// What a command printed and how it ended.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the binary to its end, in an empty folder and with these variables added.
fn run_with<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>, variables: &[(&str, &str)]) -> Ran {
    let folder = Folder::new("run");
    let mut launch = Launch::new("nagaya", BINARY).args(args);
    for (name, value) in variables {
        launch = launch.env(name, value);
    }
    finish(Process::start(launch, folder.path()).unwrap())
}

fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    run_with(args, &[])
}

fn finish(process: Process) -> Ran {
    let status = process.wait(LIMIT).unwrap();
    Ran {
        code: status.code(),
        stdout: process.stdout(),
        stderr: process.stderr(),
    }
}

fn house() -> NagayaBuilder {
    Nagaya::builder(BINARY)
}

/// Opens a connection and sends some bytes.
fn send(address: SocketAddr, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// Reads until the server closes; a reset counts as closed.
fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => (),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => (),
        Err(error) => panic!("the server did not close the connection: {error}"),
    }
    String::from_utf8(bytes).unwrap()
}

/// Sends a whole request and reads the whole answer.
fn ask(address: SocketAddr, head: &str) -> String {
    read_all(&mut send(
        address,
        &format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
    ))
}
