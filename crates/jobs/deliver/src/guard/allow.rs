//! The operator's exceptions to the guard.

use std::net::IpAddr;

use ipnet::IpNet;

/// Addresses and names that may be reached although the guard would refuse them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    nets: Vec<IpNet>,
    /// In lower case. An entry that begins with a dot stands for all subdomains.
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is neither an address, nor a network like 10.0.0.0/8, nor a name like hooks.internal or *.internal"
)]
pub struct ParseError(String);

impl Allow {
    /// Parses a list of addresses, networks and names.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Allow, ParseError> {
        let mut allow = Allow::default();
        for entry in entries {
            if let Ok(net) = entry.parse::<IpNet>() {
                allow.nets.push(net);
            } else if let Ok(address) = entry.parse::<IpAddr>() {
                allow.nets.push(address.into());
            } else {
                allow
                    .names
                    .push(name(entry).ok_or_else(|| ParseError(entry.to_owned()))?);
            }
        }
        Ok(allow)
    }

    /// Returns whether an address is allowed.
    pub fn has_address(&self, address: IpAddr) -> bool {
        // An IPv4 network also allows the mapped form of its addresses.
        let plain = address.to_canonical();
        self.nets
            .iter()
            .any(|net| net.contains(&address) || net.contains(&plain))
    }

    /// Returns whether a host may be reached, whatever it resolves to.
    pub fn has_name(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.names.iter().any(|name| match name.strip_prefix('.') {
            Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
            None => host == *name,
        })
    }
}

fn name(entry: &str) -> Option<String> {
    let bare = entry.strip_prefix('*').unwrap_or(entry);
    let labels = bare.strip_prefix('.').unwrap_or(bare);
    let fits = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_name = labels.split('.').all(fits) && labels.bytes().any(|byte| byte.is_ascii_alphabetic());
    is_name.then(|| bare.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_addresses_and_names_are_let_through() {
        let allow = Allow::parse(["10.1.0.0/16", "127.0.0.1", "hooks.internal", "*.svc.local"]).unwrap();
        let has = |address: &str| allow.has_address(address.parse().unwrap());
        assert!(has("10.1.2.3") && has("127.0.0.1") && has("::ffff:127.0.0.1"));
        assert!(!has("10.2.0.1") && !has("127.0.0.2") && !has("::1"));
        assert!(allow.has_name("hooks.internal") && allow.has_name("HOOKS.internal."));
        assert!(allow.has_name("a.svc.local") && allow.has_name("a.b.svc.local"));
        for other in ["svc.local", "evilhooks.internal", "xsvc.local", "internal"] {
            assert!(!allow.has_name(other), "{other}");
        }
    }

    #[test]
    fn what_is_none_of_these_is_refused() {
        for bad in ["", "10.0.0.0/33", "10.0.0", "a b", "*", "http://x", "a..b"] {
            assert!(Allow::parse([bad]).is_err(), "{bad}");
        }
    }
}
