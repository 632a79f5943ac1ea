//! The text of `/etc/resolv.conf`, read and written in this one place: the kubelet reads the node's
//! and decides what a pod's says; whoever makes the sandbox writes it, since a CRI runtime does so
//! too. Pure.

use std::net::IpAddr;

use crate::sandboxes::Dns;

/// The last `search` line counts, as resolv.conf(5) says; what cannot be read is left out.
pub fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("nameserver") => {
                // An address of a link names the link, which no pod has.
                dns.servers.extend(words.next().and_then(|it| it.parse::<IpAddr>().ok()));
            }
            Some("search") => dns.searches = words.map(without_dot).collect(),
            Some("options") => dns.options = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    dns
}

/// `example.com.` is `example.com`; the root stays.
fn without_dot(domain: &str) -> String {
    match domain.strip_suffix('.') {
        Some(shorter) if !shorter.is_empty() => shorter.to_owned(),
        _ => domain.to_owned(),
    }
}

pub fn render(dns: &Dns) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{parse, render};

    #[test]
    fn what_was_read_is_written_without_what_means_nothing() {
        let check = |text: &str, expected: &str| {
            assert_eq!(render(&parse(text)), expected);
            assert_eq!(render(&parse(expected)), expected);
        };
        check("", "");
        check(
            "# a comment\nsearch old.example\nnameserver 192.0.2.1 ; here\nnameserver ::1\n\
             nameserver fe80::1%eth0\noptions ndots:5 edns0\nsearch a.example. b.example .\n",
            "search a.example b.example .\nnameserver 192.0.2.1\nnameserver ::1\n\
             options ndots:5 edns0\n",
        );
    }
}
