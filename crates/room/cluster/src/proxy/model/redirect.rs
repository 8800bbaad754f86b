//! Error replies that say that a request did not run: MOVED, ASK, TRYAGAIN, LOADING, CLUSTERDOWN,
//! MASTERDOWN, READONLY, in the servers' own words.

/// Why a node did not run a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    Moved {
        slot: u16,
        target: String,
    },
    Ask {
        slot: u16,
        target: String,
    },
    /// It may run soon, here or on another node.
    NotNow,
}

impl Redirect {
    /// Parses an error reply; none for an error that the client should see.
    pub(crate) fn of(reply: &[u8]) -> Option<Redirect> {
        const NOT_NOW: &[&[u8]] = &[
            b"-TRYAGAIN Multiple keys request during rehashing of slot",
            b"-LOADING ",
            b"-CLUSTERDOWN ",
            b"-MASTERDOWN ",
            b"-READONLY You can't write against a read only ",
        ];
        if NOT_NOW.iter().any(|text| reply.starts_with(text)) {
            return Some(Redirect::NotNow);
        }
        let text = std::str::from_utf8(reply.trim_ascii_end()).ok()?;
        let mut words = text.split(' ');
        let kind = words.next()?;
        if kind != "-MOVED" && kind != "-ASK" {
            return None;
        }
        let slot = words.next()?.parse().ok()?;
        let target = words.next()?.to_owned();
        Some(if kind == "-MOVED" {
            Redirect::Moved { slot, target }
        } else {
            Redirect::Ask { slot, target }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_refusals_are_followed() {
        let moved = Redirect::Moved {
            slot: 3999,
            target: "127.0.0.1:6381".to_owned(),
        };
        assert_eq!(Redirect::of(b"-MOVED 3999 127.0.0.1:6381\r\n"), Some(moved));
        let ask = Redirect::Ask {
            slot: 1,
            target: ":7".to_owned(),
        };
        assert_eq!(Redirect::of(b"-ASK 1 :7\r\n"), Some(ask));
        assert_eq!(
            Redirect::of(b"-LOADING Redis is loading\r\n"),
            Some(Redirect::NotNow)
        );
        assert_eq!(Redirect::of(b"-TRYAGAIN says a script\r\n"), None);
        assert_eq!(Redirect::of(b"-ERR MOVED 1 a:1\r\n"), None);
        assert_eq!(Redirect::of(b"-MOVED on\r\n"), None);
    }
}
