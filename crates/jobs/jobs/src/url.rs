//! The URLs that the server calls for its users.

use crate::limits::URL_BYTES_MAX;

/// Checks the URL of a webhook or an endpoint. Returns what is wrong with it.
pub fn check(url: &str) -> Result<(), &'static str> {
    if url.len() > URL_BYTES_MAX || url.chars().any(|one| one.is_control() || one == ' ') {
        return Err("needs a URL of at most 2048 bytes without spaces");
    }
    let Some(parts) = Parts::of(url) else {
        return Err("needs an http or https URL");
    };
    if parts.host.is_empty()
        || parts
            .host
            .contains(['@', '\\', '<', '>', '"', '{', '}', '|', '^', '`', '%'])
    {
        return Err("needs a URL with a host, and without a user or a password");
    }
    match parts.port {
        None => Ok(()),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
        Some(_) => Err("needs a URL whose port lies between 1 and 65535"),
    }
}

/// Returns the target of a URL: scheme, host and port. Calls to the same target share its limits.
pub fn target(url: &str) -> String {
    match Parts::of(url) {
        Some(parts) => {
            let default = if parts.scheme == "https" { "443" } else { "80" };
            let (host, port) = (parts.host.to_ascii_lowercase(), parts.port.unwrap_or(default));
            format!("{}://{host}:{port}", parts.scheme)
        }
        None => url.to_owned(),
    }
}

/// Where a URL leads.
struct Parts<'a> {
    scheme: &'static str,
    host: &'a str,
    port: Option<&'a str>,
}

impl Parts<'_> {
    fn of(url: &str) -> Option<Parts<'_>> {
        let strip = |scheme: &'static str| {
            let (head, rest) = url.split_at_checked(scheme.len())?;
            let rest = rest.strip_prefix("://")?;
            head.eq_ignore_ascii_case(scheme).then_some((scheme, rest))
        };
        let (scheme, rest) = strip("https").or_else(|| strip("http"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A colon inside of the brackets belongs to an IPv6 address.
        let after_host = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[after_host..].split_once(':') {
            Some((rest, port)) => (&authority[..after_host + rest.len()], Some(port)),
            None => (authority, None),
        };
        Some(Parts { scheme, host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_can_be_called_are_fine() {
        for url in [
            "http://example.test",
            "https://example.test:8443/a?b=c#d",
            "http://[::1]:80/",
            "HTTPS://Example.test/",
            "http://127.0.0.1:65535/hook",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn urls_that_cannot_be_called_are_refused() {
        for url in [
            "",
            "http://",
            "https:///path",
            "http://:80/",
            "http://example.test:99999/",
            "http://example.test:0/",
            "http://example.test:/",
            "http://example.test:8x/",
            "http://user:word@example.test/",
            "ftp://example.test/",
            "example.test",
            "http://exa mple.test/",
            "http:/example.test",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_target_is_scheme_host_and_port() {
        assert_eq!(target("HTTP://Example.test/a"), "http://example.test:80");
        assert_eq!(target("https://example.test?x"), "https://example.test:443");
        assert_eq!(target("http://[::1]:8080/x"), "http://[::1]:8080");
    }
}
