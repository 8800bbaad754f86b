use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use nagaya_testkit::{Memcached, Nginx, http};

fn memcached_line(server: &Memcached, command: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(command.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn memcached_stores_and_is_empty_after_a_restart() {
    let server = Memcached::start();
    assert_eq!(memcached_line(&server, "set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(memcached_line(&server, "get a\r\n"), "VALUE a 0 1\r\n");
    server.process().kill9();
    server.restart();
    assert_eq!(memcached_line(&server, "get a\r\n"), "END\r\n");
}

#[test]
fn nginx_serves_what_its_config_says() {
    let nginx = Nginx::start(|address| {
        format!("server {{ listen {address}; location /a {{ return 201 \"b\"; }} root www; }}")
    });
    let answer = http::get(nginx.address(), "/a").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (201, "b"));
    nginx.process().kill9();
    assert!(http::get(nginx.address(), "/a").is_err());
    nginx.restart();
    assert_eq!(http::get(nginx.address(), "/none").unwrap().status, 404);
    assert_eq!(
        nginx.process().pids().len(),
        1,
        "no workers that could outlive it"
    );
}
