//! Text to tokens. Literals keep their text; `literal` gives them values.

/// What a token is. Words that are literals or operators have their own kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Ident,
    /// A field name between backquotes.
    EscapedIdent,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    True,
    False,
    Null,
    In,
    /// Punctuation, by its text.
    Mark(&'static str),
    End,
}

/// A token and the bytes of the source that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Longer ones first.
const MARKS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

/// All tokens up to the end. The error is the offset and text of what is no token.
pub(super) fn lex(text: &str) -> Result<Vec<Spanned>, (usize, String)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at = skip_space(text, at);
        let Some(first) = text[at..].chars().next() else {
            tokens.push(Spanned { token: Token::End, start: at, end: at });
            return Ok(tokens);
        };
        let (token, end) = match first {
            '0'..='9' => number(text, at),
            '.' if text[at + 1..].starts_with(|it: char| it.is_ascii_digit()) => number(text, at),
            '"' | '\'' => (Token::String, quoted(text, at, false)?),
            '`' => (Token::EscapedIdent, escaped(text, at)?),
            'a'..='z' | 'A'..='Z' | '_' => word(text, at)?,
            _ => mark(text, at).ok_or_else(|| unknown(text, at))?,
        };
        tokens.push(Spanned { token, start: at, end });
        at = end;
    }
}

fn unknown(text: &str, at: usize) -> (usize, String) {
    let what: String = text[at..].chars().take(1).collect();
    (at, format!("token recognition error at: '{what}'"))
}

fn skip_space(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        at += rest.len() - trimmed.len();
        if !trimmed.starts_with("//") {
            return at;
        }
        at += trimmed.find('\n').unwrap_or(trimmed.len());
    }
}

fn mark(text: &str, at: usize) -> Option<(Token, usize)> {
    let mark = MARKS.iter().find(|it| text[at..].starts_with(**it))?;
    Some((Token::Mark(mark), at + mark.len()))
}

fn digits(text: &str, at: usize) -> usize {
    at + text[at..].bytes().take_while(u8::is_ascii_digit).count()
}

fn number(text: &str, at: usize) -> (Token, usize) {
    let bytes = text.as_bytes();
    let is = |at: usize, set: &[u8]| bytes.get(at).is_some_and(|it| set.contains(it));
    if bytes[at] == b'0' && is(at + 1, b"x") {
        let n = text[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        if n > 0 {
            return integer(at + 2 + n, is(at + 2 + n, b"uU"));
        }
    }
    let mut end = digits(text, at);
    let mut is_double = false;
    if is(end, b".") && digits(text, end + 1) > end + 1 {
        end = digits(text, end + 1);
        is_double = true;
    }
    if is(end, b"eE") {
        let sign = end + 1 + usize::from(is(end + 1, b"+-"));
        let exponent = if sign <= text.len() { digits(text, sign) } else { sign };
        if exponent > sign {
            end = exponent;
            is_double = true;
        }
    }
    if is_double { (Token::Double, end) } else { integer(end, is(end, b"uU")) }
}

fn integer(end: usize, is_unsigned: bool) -> (Token, usize) {
    if is_unsigned { (Token::Uint, end + 1) } else { (Token::Int, end) }
}

fn escaped(text: &str, at: usize) -> Result<usize, (usize, String)> {
    let is_part = |it: &u8| it.is_ascii_alphanumeric() || b"_.-/ ".contains(it);
    let n = text[at + 1..].bytes().take_while(is_part).count();
    if n == 0 || !text[at + 1 + n..].starts_with('`') {
        return Err(unknown(text, at));
    }
    Ok(at + n + 2)
}

/// An identifier, a word of the language, or a string with a prefix.
fn word(text: &str, at: usize) -> Result<(Token, usize), (usize, String)> {
    let n = text[at..].bytes().take_while(|it| it.is_ascii_alphanumeric() || *it == b'_').count();
    let end = at + n;
    let word = &text[at..end];
    if text[end..].starts_with(['"', '\'']) {
        let prefix = word.to_ascii_lowercase();
        if matches!(prefix.as_str(), "r" | "b" | "br") {
            let token = if prefix.starts_with('b') { Token::Bytes } else { Token::String };
            return Ok((token, quoted(text, end, prefix.ends_with('r'))?));
        }
    }
    let token = match word {
        "true" => Token::True,
        "false" => Token::False,
        "null" => Token::Null,
        "in" => Token::In,
        _ => Token::Ident,
    };
    Ok((token, end))
}

/// The end of the string whose quote is at `at`.
fn quoted(text: &str, at: usize, is_raw: bool) -> Result<usize, (usize, String)> {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    let triple = [quote; 3];
    let is_triple = bytes[at..].starts_with(&triple);
    let mut end = at + if is_triple { 3 } else { 1 };
    loop {
        match bytes.get(end) {
            None => break,
            Some(b'\n' | b'\r') if !is_triple => break,
            Some(b'\\') if !is_raw => end += 2,
            Some(it) if *it == quote && !is_triple => return Ok(end + 1),
            Some(it) if *it == quote && bytes[end..].starts_with(&triple) => return Ok(end + 3),
            Some(_) => end += 1,
        }
    }
    let end = text.len().min(end);
    let shown = text.get(at..end).unwrap_or_else(|| &text[at..]);
    Err((at, format!("token recognition error at: '{shown}'")))
}
