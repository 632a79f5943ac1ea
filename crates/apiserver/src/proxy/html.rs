//! Links of a page, rewritten while it passes. What is not surely a link in a tag stays as it is: a
//! page that cannot be read passes unchanged. Pure.

use super::links::Links;

/// Attributes that hold one link each, in whichever element.
const ATTRIBUTES: &[&[u8]] =
    &[b"action", b"cite", b"data", b"formaction", b"href", b"icon", b"longdesc", b"poster", b"src"];
/// A tag longer than this is none.
const TAG_MAX: usize = 64 * 1024;
/// Elements whose content is text, whatever it looks like.
const RAW: &[&[u8]] = &[b"script", b"style", b"textarea", b"title"];

pub(super) struct Pages {
    links: Links,
    /// The end of what came, if it may be the begin of a tag.
    held: Vec<u8>,
    /// The element that ends the raw text that we are in.
    raw: Option<&'static [u8]>,
}

impl Pages {
    pub(super) fn new(links: Links) -> Self {
        Self { links, held: Vec::new(), raw: None }
    }

    /// What of the page can be sent on.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::with_capacity(held.len() + 64);
        let mut rest = held.as_slice();
        while let Some(start) = rest.iter().position(|it| *it == b'<') {
            out.extend_from_slice(&rest[..start]);
            rest = &rest[start..];
            let Some(length) = self.length_of_tag(rest) else {
                if rest.len() < TAG_MAX {
                    self.held = rest.to_vec();
                    return out;
                }
                // It never ends: it is text.
                out.extend_from_slice(rest);
                return out;
            };
            self.pass_tag(&rest[..length], &mut out);
            rest = &rest[length..];
        }
        out.extend_from_slice(rest);
        out
    }

    /// What is left when the page has ended.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Of what begins with `<`. `None`: its end has not come yet.
    fn length_of_tag(&self, text: &[u8]) -> Option<usize> {
        if let Some(raw) = self.raw {
            let needed = raw.len() + 2;
            let is_end = |it: &[u8]| it[1] == b'/' && it[2..].eq_ignore_ascii_case(raw);
            return match text.get(..needed) {
                Some(start) if !is_end(start) => Some(1),
                Some(_) => end_of_tag(text),
                None if text.get(1).is_some_and(|it| *it != b'/') => Some(1),
                None => None,
            };
        }
        match text.get(1)? {
            b'!' if text.starts_with(b"<!--") => {
                text.windows(3).position(|it| it == b"-->").map(|it| it + 3)
            }
            b'!' if b"<!--".starts_with(text) => None,
            it if it.is_ascii_alphabetic() || *it == b'/' => end_of_tag(text),
            _ => Some(1),
        }
    }

    fn pass_tag(&mut self, tag: &[u8], out: &mut Vec<u8>) {
        let name: &[u8] = tag.get(1..).unwrap_or_default();
        let end = name.iter().position(|it| !it.is_ascii_alphanumeric()).unwrap_or(name.len());
        let name = &name[..end];
        if self.raw.is_some() {
            if tag.starts_with(b"</") {
                self.raw = None;
            }
            return out.extend_from_slice(tag);
        }
        if name.is_empty() {
            return out.extend_from_slice(tag);
        }
        self.raw = RAW.iter().find(|it| it.eq_ignore_ascii_case(name)).copied();
        let mut copied = 0;
        for (start, end) in links_in(tag) {
            let link = std::str::from_utf8(&tag[start..end]).ok();
            if let Some(link) = link.and_then(|it| self.links.rewrite(it)) {
                out.extend_from_slice(&tag[copied..start]);
                out.extend_from_slice(link.as_bytes());
                copied = end;
            }
        }
        out.extend_from_slice(&tag[copied..]);
    }
}

/// After its `>`, which may also stand in quotes.
fn end_of_tag(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (index, byte) in text.iter().enumerate() {
        match (quote, *byte) {
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'>') => return Some(index + 1),
            (None, _) => {}
        }
    }
    None
}

/// Where the values of attributes with links stand.
fn links_in(tag: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 1;
    let skip = |mut at: usize, is: fn(&u8) -> bool| {
        while tag.get(at).is_some_and(is) {
            at += 1;
        }
        at
    };
    at = skip(at, u8::is_ascii_alphanumeric);
    while at < tag.len() {
        at = skip(at, |it| it.is_ascii_whitespace() || matches!(it, b'/' | b'>' | b'"' | b'\''));
        let start = at;
        at = skip(at, |it| !it.is_ascii_whitespace() && !matches!(it, b'=' | b'>' | b'/'));
        let name = &tag[start..at];
        let value = skip(at, u8::is_ascii_whitespace);
        if tag.get(value) != Some(&b'=') {
            at = at.max(start + 1);
            continue;
        }
        let value = skip(value + 1, u8::is_ascii_whitespace);
        let (start, end) = match tag.get(value) {
            Some(&quote @ (b'"' | b'\'')) => {
                let start = value + 1;
                let length = tag[start..].iter().position(|it| *it == quote);
                (start, length.map_or(tag.len(), |it| start + it))
            }
            _ => (value, skip(value, |it| !it.is_ascii_whitespace() && *it != b'>')),
        };
        if ATTRIBUTES.iter().any(|it| it.eq_ignore_ascii_case(name)) {
            found.push((start, end));
        }
        at = (end + 1).max(value + 1);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pages() -> Pages {
        Pages::new(Links { prefix: "/p".to_owned(), host: "h".to_owned(), target: "t".to_owned() })
    }

    fn check(page: &str, expected: &str) {
        // However it is cut.
        for size in [1, 3, 7, page.len().max(1)] {
            let mut pages = pages();
            let mut seen = Vec::new();
            for piece in page.as_bytes().chunks(size) {
                seen.extend(pages.step(piece));
            }
            seen.extend(pages.finish());
            assert_eq!(String::from_utf8(seen).unwrap(), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn links_in_tags_lead_through_the_proxy() {
        check("<a href=\"/x\">/x</a>", "<a href=\"/p/x\">/x</a>");
        check("<A HREF='/x' id=/y>", "<A HREF='/p/x' id=/y>");
        check("<img src=/x/><form action = \"/y\" >", "<img src=/p/x/><form action = \"/p/y\" >");
        check("<a title=\"a > b\" href=\"http://t/x\">", "<a title=\"a > b\" href=\"/p/x\">");
        check(
            "<a href=\"https://example.com/x\"><a href=\"x\">",
            "<a href=\"https://example.com/x\"><a href=\"x\">",
        );
    }

    #[test]
    fn what_is_no_tag_stays() {
        for page in [
            "a < b, href=\"/x\"",
            "<!-- <a href=\"/x\"> -->",
            "<script>if (a <b) { x = '<a href=\"/x\">' }</script>",
            "<style>a { }</style>",
            "<a href=\"/x",
            "<",
            "<!",
            "",
        ] {
            check(page, page);
        }
        check("<script></script><a href='/x'>", "<script></script><a href='/p/x'>");
        check("<!-- --><a href='/x'>", "<!-- --><a href='/p/x'>");
    }

    #[test]
    fn a_tag_without_end_is_not_kept() {
        let mut pages = pages();
        let mut seen = pages.step(b"<a ");
        for _ in 0..2_000 {
            seen.extend(pages.step(&[b'x'; 100]));
            assert!(pages.held.len() < TAG_MAX + 100);
        }
        seen.extend(pages.finish());
        assert_eq!(seen.len(), 200_003);
    }

    proptest! {
        #[test]
        fn whatever_comes_passes(pieces in proptest::collection::vec("[<>a/!\"'= \\-hrefscipt]{0,12}", 0..20)) {
            let mut pages = Pages::new(Links {
                prefix: String::new(), host: String::new(), target: String::new(),
            });
            let mut seen = Vec::new();
            for piece in &pieces {
                seen.extend(pages.step(piece.as_bytes()));
            }
            seen.extend(pages.finish());
            // With nothing to put before links, nothing changes.
            prop_assert_eq!(String::from_utf8(seen).unwrap(), pieces.concat());
        }
    }
}
