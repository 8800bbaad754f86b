//! The launcher of our own binary, tried with a stand-in: a script that takes
//! the same flags and turns into an nginx.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nagaya_testkit::{Folder, Nagaya};

const STAND_IN: &str = r#"#!/bin/sh
set -e
[ "$1 $2" = "up --data" ] && mkdir -p "$3" && [ "$4" = --http-listen ]
case "$*" in *--broken*) echo "error: the flag --broken is broken" >&2; exit 2 ;; esac
cd "$3"
echo started >> starts
cat > nginx.conf <<END
daemon off; master_process off; pid $PWD/pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path $PWD/a; proxy_temp_path $PWD/b; fastcgi_temp_path $PWD/c;
  uwsgi_temp_path $PWD/d; scgi_temp_path $PWD/e;
  server { listen $5; location /readyz { return 200 "{}"; } location /greeting { return 200 "$GREETING"; } }
}
END
PATH=$PATH:/usr/sbin exec nginx -p "$PWD" -c "$PWD/nginx.conf"
"#;

fn stand_in(folder: &Folder) -> PathBuf {
    let path = folder.write("nagaya", STAND_IN);
    set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn up_is_ready_when_start_returns_and_restarts_on_its_data() {
    let folder = Folder::new("stand-in");
    let nagaya = Nagaya::builder(stand_in(&folder))
        .env("GREETING", "hello")
        .start();
    assert_eq!(nagaya.get("/greeting").unwrap().body, "hello");
    assert_eq!(nagaya.shut_down().code(), Some(0));
    assert!(nagaya.get("/readyz").is_err());
    nagaya.restart();
    let starts = std::fs::read_to_string(nagaya.data().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 2);
}

#[test]
fn a_failed_start_shows_what_the_binary_said() {
    let folder = Folder::new("stand-in");
    let error = Nagaya::builder(stand_in(&folder))
        .args(["--broken"])
        .try_start()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("exit status: 2") && error.contains("--broken is broken"),
        "{error}"
    );
}
