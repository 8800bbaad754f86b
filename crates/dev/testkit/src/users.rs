//! The users that servers run under when the tests run as root.

use std::fs;
use std::os::unix::fs::chown;

use crate::process::User;
use crate::{Error, Folder};

/// The first of these users that the machine has; `None` when we are not root
/// and servers simply run as ourselves.
#[track_caller]
pub(crate) fn unprivileged(names: &[&str]) -> Option<User> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = names.iter().find_map(|name| find(&passwd, name));
    assert!(user.is_some(), "/etc/passwd has none of the users {names:?}");
    user
}

/// Makes a folder the user's own; without a user it is ours already.
pub(crate) fn hand_over(folder: &Folder, user: Option<User>) -> Result<(), Error> {
    let Some(user) = user else { return Ok(()) };
    chown(folder.path(), Some(user.uid), Some(user.gid))
        .map_err(|source| Error::io(format!("give away {}", folder.path().display()), source))
}

fn find(passwd: &str, name: &str) -> Option<User> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = fields.into_iter().find(|fields| fields[0] == name)?;
    Some(User {
        uid: fields.get(2)?.parse().ok()?,
        gid: fields.get(3)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "nobody2:x:1:2::/:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/sh\n";
        let user = find(passwd, "nobody").unwrap();
        assert_eq!((user.uid, user.gid), (65534, 65533));
    }
}
