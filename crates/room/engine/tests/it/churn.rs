//! Connections that come and go, in every way they can.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;

use nagaya_testkit::wait;

use crate::harness::*;

/// How many threads open and end connections.
const CHURNERS: usize = 4;
/// Connections that each of them opens, one after another.
const CONNECTIONS: usize = 400;
/// Connections that stay, served before and after.
const STAYING: usize = 200;

#[test]
fn connections_that_come_and_go_leave_nothing_and_disturb_nobody() {
    let engine = engine_with(|config| config.io_threads = 2);
    let address = engine.tcp_address();
    let mut staying: Vec<_> = (0..STAYING).map(|_| connect(address)).collect();
    let ping_all = |staying: &mut Vec<std::net::TcpStream>| {
        staying
            .iter_mut()
            .for_each(|stream| stream.write_all(b"PING\r\n").unwrap());
        for stream in staying {
            let mut reply = [0; 7];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"+PONG\r\n");
        }
    };
    ping_all(&mut staying);
    std::thread::scope(|scope| {
        for churner in 0..CHURNERS {
            scope.spawn(move || (0..CONNECTIONS).for_each(|number| visit(address, churner, number)));
        }
        ping_all(&mut staying);
    });
    ping_all(&mut staying);
    let stats = engine.stats();
    wait::until("only the staying connections are left", LIMIT, || {
        stats.connections() == STAYING
    });
    drop(staying);
    wait::until("no connection is left", LIMIT, || stats.connections() == 0);
    still_serves(&engine);
}

/// One connection, ended in one of five ways.
fn visit(address: SocketAddr, churner: usize, number: usize) {
    let mut stream = connect(address);
    // A key of its own: the request of a connection that was reset may still run later.
    let set = format!("SET key:{churner}:{number} {number}\r\nGET key:{churner}:{number}\r\n");
    let expected = format!("+OK\r\n${}\r\n{number}\r\n", number.to_string().len());
    match number % 5 {
        // It asks and waits.
        0 => {
            stream.write_all(set.as_bytes()).unwrap();
            let mut reply = vec![0; expected.len()];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply, expected.as_bytes());
        }
        // It ends its side and reads to the end.
        1 => {
            stream.write_all(set.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&mut stream), expected.as_bytes());
        }
        // It takes its leave.
        2 => {
            stream.write_all(b"QUIT\r\n").unwrap();
            assert_eq!(read_to_end(&mut stream), b"+OK\r\n");
        }
        // It resets the connection with a request under way.
        3 => {
            stream.write_all(set.as_bytes()).unwrap();
            rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(std::time::Duration::ZERO)).unwrap();
        }
        // It says nothing at all.
        _ => {}
    }
}
