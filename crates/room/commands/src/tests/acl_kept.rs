//! The users' file: what it keeps, and who is cut off when it is read again.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nagaya_connections::client::Message;
use nagaya_testkit::Folder;

use crate::testing::TestSession;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";

fn with_file(path: &Path, saves_itself: bool) -> TestSession {
    let session = TestSession::new();
    session.engine.server.update_config(|config| {
        config.acl_file = Some(path.to_owned());
        config.acl_saves_itself = saves_itself;
    });
    session.engine.server.load_users_at_start().unwrap();
    session
}

fn new_file(text: &str) -> (Folder, PathBuf) {
    let folder = Folder::new("acl");
    let path = folder.path().join("users.acl");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn the_file_is_private_whole_and_leaves_nothing_beside_it() {
    let (folder, path) = new_file("");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut admin = with_file(&path, false);
    admin.check("ACL SETUSER u on >pw ~a", "+OK\r\n");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        b"",
        "SETUSER saves nothing by itself"
    );
    admin.check("ACL SAVE", "+OK\r\n");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let beside: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    let mut again = with_file(&path, false);
    again.check("AUTH u pw", "+OK\r\n");
    admin.check(
        "CONFIG GET aclfile",
        &format!(
            "*2\r\n$7\r\naclfile\r\n${}\r\n{}\r\n",
            path.display().to_string().len(),
            path.display()
        ),
    );
}

#[test]
fn a_wrong_line_is_named_and_nobody_is_changed() {
    let (_folder, path) = new_file("user default on nopass ~* &* +@all\nuser u on nopass +@all ~*\n");
    let mut admin = with_file(&path, false);
    let mut user = admin.another();
    user.check("AUTH u x", "+OK\r\n");
    for (text, expected) in [
        (
            "user u on\nuser v +nosuch\n",
            ":2: Error in applying operation '+nosuch'",
        ),
        ("user u on\n\nnonsense\n", ":3 should start with user keyword"),
        ("user u (~a\n", ":1: Unmatched parenthesis"),
        (
            "user u #12\n",
            ":1: The password hash must be exactly 64 characters",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let reply = admin.text("ACL LOAD");
        assert!(reply.starts_with("-ERR ") && reply.contains(expected), "{reply}");
        assert_eq!(user.messages(), []);
        user.check("PING", "+PONG\r\n");
        let failed = admin.engine.server.load_users_at_start().unwrap_err();
        assert!(failed.contains(expected), "{failed}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(admin.text("ACL LOAD").contains("No such file"));
    assert!(
        admin.engine.server.load_users_at_start().is_err(),
        "a named file must be there"
    );
}

#[test]
fn loading_cuts_off_those_who_are_gone_or_changed_and_nobody_else() {
    let (_folder, path) = new_file(
        "user same on nopass +@all ~*\nuser changed on nopass +@all ~*\n\
                                    user gone on nopass +@all ~*\n",
    );
    let mut admin = with_file(&path, false);
    let login = |name: &str| {
        let mut session = admin.another();
        session.check(&format!("AUTH {name} x"), "+OK\r\n");
        session
    };
    let (mut same, mut changed, mut gone) = (login("same"), login("changed"), login("gone"));
    let mut listener = admin.another();
    listener.text("SUBSCRIBE news");
    std::fs::write(
        &path,
        "user default on nopass ~* +@all resetchannels\nuser same on nopass +@all ~*\n\
                           user changed on nopass +@all ~a\n",
    )
    .unwrap();
    admin.check("ACL LOAD", "+OK\r\n");
    assert_eq!(same.messages(), []);
    same.check("SET b 1", "+OK\r\n");
    assert_eq!(changed.messages(), [Message::Close]);
    changed.check("SET b 1", NOAUTH);
    assert_eq!(gone.messages(), [Message::Close]);
    gone.check("PING", NOAUTH);
    assert_eq!(
        listener.messages(),
        [Message::Close],
        "`default` may no longer listen"
    );
}

#[test]
fn the_password_of_the_settings_is_the_only_one_of_default_whatever_the_file_says() {
    let (_folder, path) = new_file("user default on >filed ~* &* +@all -flushall\n");
    let session = TestSession::new();
    session.engine.server.update_config(|config| {
        config.requirepass = "set".to_owned();
        config.acl_file = Some(path.clone());
    });
    session.engine.server.load_users_at_start().unwrap();
    let mut client = session.another();
    client.check("PING", NOAUTH);
    assert!(client.text("AUTH filed").starts_with("-WRONGPASS"));
    client.check("AUTH set", "+OK\r\n");
    assert!(
        client.text("FLUSHALL").starts_with("-NOPERM"),
        "the rest of its line counts"
    );
    client.check("ACL SETUSER default nopass", "+OK\r\n");
    client.check("ACL LOAD", "+OK\r\n");
    assert!(session.another().text("AUTH filed").starts_with("-WRONGPASS"));
    // Without one, the file says who gets in.
    let mut open = with_file(&path, false);
    open.check("PING", NOAUTH);
    open.check("AUTH filed", "+OK\r\n");
}

#[test]
fn users_that_save_themselves_are_there_after_a_restart() {
    let folder = Folder::new("acl");
    let path = folder.path().join("users.acl");
    let mut first = with_file(&path, true);
    assert!(
        !path.exists(),
        "nothing is written before there is something to keep"
    );
    first.check("ACL SETUSER u on >pw ~a +@all", "+OK\r\n");
    first.check("ACL SETUSER v on >pw", "+OK\r\n");
    first.check("ACL DELUSER v", ":1\r\n");
    first.check("CONFIG SET requirepass secret", "+OK\r\n");
    let mut second = with_file(&path, true);
    second.check("PING", NOAUTH);
    second.check("AUTH secret", "+OK\r\n");
    second.check("ACL USERS", "*2\r\n$7\r\ndefault\r\n$1\r\nu\r\n");
    second.check("AUTH u pw", "+OK\r\n");
}

#[test]
fn a_user_is_removed_even_when_that_cannot_be_saved() {
    let folder = Folder::new("acl");
    let inside = folder.path().join("sub");
    std::fs::create_dir(&inside).unwrap();
    let mut admin = with_file(&inside.join("users.acl"), true);
    admin.check("ACL SETUSER u on nopass +@all ~*", "+OK\r\n");
    let mut user = admin.another();
    user.check("AUTH u x", "+OK\r\n");
    std::fs::remove_dir_all(&inside).unwrap();
    let reply = admin.text("ACL DELUSER u");
    assert!(
        reply.starts_with("-ERR the change is in force but could not be saved"),
        "{reply}"
    );
    assert_eq!(user.messages(), [Message::Close]);
    assert!(
        admin
            .text("ACL SAVE")
            .starts_with("-ERR There was an error trying to save the ACLs")
    );
    std::fs::create_dir(&inside).unwrap();
    admin.check("ACL SAVE", "+OK\r\n");
}
