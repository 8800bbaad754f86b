//! Classifies addresses as public or not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unspecified,
    Loopback,
    Private,
    /// Includes the metadata services of cloud providers.
    LinkLocal,
    /// Carrier-grade NAT, shared by a provider's customers.
    Shared,
    Multicast,
    /// Reserved for documentation, benchmarks or future use.
    Reserved,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refusal::Unspecified => "an unspecified address",
            Refusal::Loopback => "a loopback address",
            Refusal::Private => "a private address",
            Refusal::LinkLocal => "a link-local address",
            Refusal::Shared => "a provider's shared address",
            Refusal::Multicast => "a multicast address",
            Refusal::Reserved => "a reserved address",
        })
    }
}

/// Returns why an address does not belong to the public internet; `None` if it does. An IPv6 address that
/// embeds an IPv4 address is judged by that one.
pub fn refusal(address: IpAddr) -> Option<Refusal> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<Refusal> {
    match address.octets() {
        [0, 0, 0, 0] => Some(Refusal::Unspecified),
        [127, ..] => Some(Refusal::Loopback),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some(Refusal::Private),
        [169, 254, ..] => Some(Refusal::LinkLocal),
        [100, 64..=127, ..] => Some(Refusal::Shared),
        [224..=239, ..] => Some(Refusal::Multicast),
        [0, ..]
        | [192, 0, 0, _]
        | [192, 0, 2, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => Some(Refusal::Reserved),
        _ => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<Refusal> {
    let parts = address.segments();
    let v4_at = |at: usize| {
        let [a, b] = parts[at].to_be_bytes();
        let [c, d] = parts[at + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Refusal::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Refusal::Loopback),
        // IPv4-mapped and IPv4-compatible addresses.
        [0, 0, 0, 0, 0, 0xffff | 0, _, _] => refusal_v4(v4_at(6)),
        // NAT64: the well-known prefix, and the one for local use.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => refusal_v4(v4_at(6)),
        [0x64, 0xff9b, 1, ..] => Some(Refusal::Private),
        // Tunnels, whose other end is embedded in the address.
        [0x2002, ..] => refusal_v4(v4_at(1)),
        [0x2001, 0, ..] => Some(Refusal::Reserved),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(Refusal::Private),
        [0xfe80..=0xfebf, ..] => Some(Refusal::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Refusal::Multicast),
        [0x2001, 1..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x100, 0, 0, 0, ..] => {
            Some(Refusal::Reserved)
        }
        // Global unicast addresses begin with 2 or 3.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Refusal::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, expected: Option<Refusal>) {
        assert_eq!(refusal(address.parse().unwrap()), expected, "{address}");
    }

    #[test]
    fn the_public_internet_may_be_reached() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001:80b::200e",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            check(address, None);
        }
    }

    #[test]
    fn everything_else_is_refused_for_what_it_is() {
        for (address, why) in [
            ("0.0.0.0", Refusal::Unspecified),
            ("0.1.2.3", Refusal::Reserved),
            ("127.0.0.1", Refusal::Loopback),
            ("127.255.255.254", Refusal::Loopback),
            ("10.0.0.1", Refusal::Private),
            ("172.16.0.1", Refusal::Private),
            ("172.31.255.255", Refusal::Private),
            ("192.168.1.1", Refusal::Private),
            ("169.254.169.254", Refusal::LinkLocal),
            ("100.64.0.1", Refusal::Shared),
            ("100.100.100.200", Refusal::Shared),
            ("192.0.0.192", Refusal::Reserved),
            ("198.18.0.1", Refusal::Reserved),
            ("203.0.113.7", Refusal::Reserved),
            ("224.0.0.1", Refusal::Multicast),
            ("240.0.0.1", Refusal::Reserved),
            ("255.255.255.255", Refusal::Reserved),
            ("::", Refusal::Unspecified),
            ("::1", Refusal::Loopback),
            ("::ffff:127.0.0.1", Refusal::Loopback),
            ("::ffff:169.254.169.254", Refusal::LinkLocal),
            ("::127.0.0.1", Refusal::Loopback),
            ("64:ff9b::10.0.0.1", Refusal::Private),
            ("64:ff9b:1::1", Refusal::Private),
            ("2002:7f00:1::1", Refusal::Loopback),
            ("2002:a9fe:a9fe::1", Refusal::LinkLocal),
            ("2001:0:53aa:64c::1", Refusal::Reserved),
            ("2001:db8::1", Refusal::Reserved),
            ("fc00::1", Refusal::Private),
            ("fd00:ec2::254", Refusal::Private),
            ("fe80::1", Refusal::LinkLocal),
            ("fec0::1", Refusal::Private),
            ("ff02::1", Refusal::Multicast),
            ("100::1", Refusal::Reserved),
            ("4000::1", Refusal::Reserved),
        ] {
            check(address, Some(why));
        }
    }
}
