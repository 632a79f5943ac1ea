//! The values of literals: numbers and strings with their escapes.

use std::sync::Arc;

use super::ast::Literal;

pub(super) fn int(text: &str, is_negative: bool) -> Option<Literal> {
    let (digits, radix) = radix(text);
    let signed = if is_negative { format!("-{digits}") } else { digits.to_owned() };
    i64::from_str_radix(&signed, radix).ok().map(Literal::Int)
}

pub(super) fn uint(text: &str) -> Option<Literal> {
    let (digits, radix) = radix(text.trim_end_matches(['u', 'U']));
    u64::from_str_radix(digits, radix).ok().map(Literal::Uint)
}

fn radix(text: &str) -> (&str, u32) {
    text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16))
}

pub(super) fn double(text: &str, is_negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Literal::Double(if is_negative { -value } else { value }))
}

/// A string or bytes literal with prefix and quotes.
pub(super) fn quoted(text: &str) -> Result<Literal, String> {
    let start = text.find(['"', '\'']).unwrap_or(0);
    let prefix = text[..start].to_ascii_lowercase();
    let text = &text[start..];
    let n = if text.len() >= 6 && (text.starts_with("\"\"\"") || text.starts_with("'''")) {
        3
    } else {
        1
    };
    let inner = text.get(n..text.len() - n).unwrap_or("");
    let is_bytes = prefix.starts_with('b');
    let mut out = Vec::with_capacity(inner.len());
    if prefix.ends_with('r') {
        out.extend_from_slice(inner.as_bytes());
    } else {
        unescape(inner, is_bytes, &mut out)?;
    }
    if is_bytes {
        return Ok(Literal::Bytes(out.into()));
    }
    let text = String::from_utf8(out).map_err(|_| "invalid UTF-8 string literal".to_owned())?;
    Ok(Literal::String(Arc::from(text)))
}

fn unescape(mut text: &str, is_bytes: bool, out: &mut Vec<u8>) -> Result<(), String> {
    while let Some(at) = text.find('\\') {
        // Line ends of other systems become ours.
        out.extend_from_slice(text[..at].replace("\r\n", "\n").replace('\r', "\n").as_bytes());
        text = escape(&text[at + 1..], is_bytes, out)?;
    }
    out.extend_from_slice(text.replace("\r\n", "\n").replace('\r', "\n").as_bytes());
    Ok(())
}

/// One escape, without its backslash. Returns what follows it.
fn escape<'t>(text: &'t str, is_bytes: bool, out: &mut Vec<u8>) -> Result<&'t str, String> {
    let Some(first) = text.chars().next() else {
        return Err("unable to unescape string, found '\\' as last character".to_owned());
    };
    let rest = &text[first.len_utf8()..];
    let plain = match first {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        '\'' => b'\'',
        '"' => b'"',
        '`' => b'`',
        '?' => b'?',
        'x' | 'X' => return coded(rest, 2, 16, is_bytes, out),
        'u' if !is_bytes => return coded(rest, 4, 16, false, out),
        'U' if !is_bytes => return coded(rest, 8, 16, false, out),
        '0'..='3' => return coded(text, 3, 8, is_bytes, out),
        _ => return Err("unable to unescape string".to_owned()),
    };
    out.push(plain);
    Ok(rest)
}

/// `n` digits that stand for a byte, or for a code point.
fn coded<'t>(
    text: &'t str,
    n: usize,
    radix: u32,
    is_byte: bool,
    out: &mut Vec<u8>,
) -> Result<&'t str, String> {
    let digits = text.get(..n).filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
    let digits = digits.ok_or("unable to unescape string, found invalid escape sequence")?;
    let code = u32::from_str_radix(digits, radix)
        .map_err(|_| "unable to unescape string, found invalid escape sequence")?;
    match u8::try_from(code) {
        Ok(byte) if is_byte => out.push(byte),
        _ => {
            let it = char::from_u32(code)
                .ok_or("unable to unescape string, found an invalid code point")?;
            out.extend_from_slice(it.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(&text[n..])
}
