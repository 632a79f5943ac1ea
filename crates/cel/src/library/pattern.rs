//! Patterns in RE2's language, as Go reads them, for the `regex` crate, which knows more of Unicode
//! and has sets of classes.

use regex::Regex;

use crate::error::Error;
use crate::work;

/// So that a pattern does not take much memory, whatever it repeats.
const BYTES_MAX: usize = 10 << 20;

/// Steps that compiling takes, and each character of the pattern once its repetitions are written
/// out.
const COMPILE: usize = 1_000;
const COMPILE_EACH: usize = 50;

/// A pattern that finds a match anywhere.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
    length: usize,
}

impl Pattern {
    /// For use with this text, which it may have to go over with all of its states.
    pub fn on(&self, text: &str) -> &Regex {
        work::note((text.len() / 16).saturating_mul(self.length));
        &self.regex
    }
}

/// Compiles it.
pub fn pattern(text: &str) -> Result<Pattern, Error> {
    let length = written_out(text);
    work::take(length.saturating_mul(COMPILE_EACH).saturating_add(COMPILE))?;
    build(text).map(|regex| Pattern { regex, length })
}

fn build(text: &str) -> Result<Regex, Error> {
    let built = regex::RegexBuilder::new(&translate(text)).size_limit(BYTES_MAX).build();
    built.map_err(|err| {
        let why = err.to_string();
        let why =
            in_words_of_go(why.lines().last().unwrap_or_default().trim_start_matches("error: "));
        Error::refused(format!("error parsing regexp: {why}: `{text}`"))
    })
}

/// What is wrong most often.
fn in_words_of_go(why: &str) -> &str {
    match why {
        "unclosed character class" => "missing closing ]",
        "unclosed group" => "missing closing )",
        "unopened group" => "unexpected )",
        "repetition operator missing expression" => "missing argument to repetition operator",
        other => other,
    }
}

/// The members of `\d`, `\s` and `\w`: ASCII alone.
fn members(class: char) -> Option<&'static str> {
    match class.to_ascii_lowercase() {
        'd' => Some("0-9"),
        's' => Some(r"\t\n\f\r "),
        'w' => Some("0-9A-Za-z_"),
        _ => None,
    }
}

fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_in_class = false;
    let mut rest = text;
    while let Some(it) = rest.chars().next() {
        let after = &rest[it.len_utf8()..];
        rest = match it {
            '\\' => escape(&mut out, after, is_in_class),
            '[' if !is_in_class => {
                is_in_class = true;
                class_start(&mut out, after)
            }
            '[' => match named_class(rest) {
                Some(n) => {
                    out.push_str(&rest[..n]);
                    &rest[n..]
                }
                None => {
                    out.push_str(r"\[");
                    after
                }
            },
            '&' | '~' if is_in_class => {
                out.extend(['\\', it]);
                after
            }
            '{' if !is_in_class && !is_repetition(after) => {
                out.push_str(r"\{");
                after
            }
            _ => {
                is_in_class = is_in_class && it != ']';
                out.push(it);
                after
            }
        };
    }
    out
}

/// The start of a class; a bracket that closes right there is a member.
fn class_start<'t>(out: &mut String, after: &'t str) -> &'t str {
    out.push('[');
    let mut rest = after;
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    if let Some(inside) = rest.strip_prefix(']') {
        out.push_str(r"\]");
        rest = inside;
    }
    rest
}

/// How long the pattern is with `a{3}` as `aaa`.
fn written_out(text: &str) -> usize {
    // Of each open group.
    let mut totals = vec![0_usize];
    let mut last: usize = 0;
    let mut rest = text.chars();
    while let Some(it) = rest.next() {
        let count = repetition(it, rest.as_str());
        let more = match (it, count) {
            ('(', _) => {
                totals.push(0);
                continue;
            }
            (')', _) if totals.len() > 1 => {
                last = totals.pop().unwrap_or_default();
                last
            }
            (_, Some(count)) => {
                let more = last.saturating_mul(count.saturating_sub(1));
                last = last.saturating_mul(count);
                more
            }
            _ => {
                if it == '\\' {
                    rest.next();
                }
                last = 1;
                1
            }
        };
        if let Some(total) = totals.last_mut() {
            *total = total.saturating_add(more);
        }
    }
    totals.into_iter().fold(0, usize::saturating_add)
}

/// The larger count of `{2,3}`.
fn repetition(it: char, after: &str) -> Option<usize> {
    if it != '{' || !is_repetition(after) {
        return None;
    }
    let (counts, _) = after.split_once('}')?;
    counts.split(',').filter_map(|it| it.parse().ok()).max()
}

/// Whether `2}`, `2,}` or `2,3}` follows; else a brace is a character.
fn is_repetition(after: &str) -> bool {
    let Some((counts, _)) = after.split_once('}') else { return false };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let is_count = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    !least.is_empty() && is_count(least) && is_count(most)
}

/// The length of `[:name:]`.
fn named_class(text: &str) -> Option<usize> {
    let name = text.strip_prefix("[:")?;
    let n = name.find(":]")?;
    let is_name = name[..n].bytes().all(|it| it == b'^' || it.is_ascii_lowercase());
    is_name.then_some(n + 4)
}

/// What follows a backslash; what is left then.
fn escape<'t>(out: &mut String, after: &'t str, is_in_class: bool) -> &'t str {
    let Some(it) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[it.len_utf8()..];
    match (it, members(it)) {
        ('Q', _) if !is_in_class => {
            let (literal, rest) = rest.split_once(r"\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(literal));
            return rest;
        }
        // A number or a name in braces.
        ('x' | 'p' | 'P', _) if rest.starts_with('{') => {
            let n = rest.find('}').map_or(rest.len(), |at| at + 1);
            out.extend(['\\', it]);
            out.push_str(&rest[..n]);
            return &rest[n..];
        }
        (_, Some(members)) if it.is_ascii_uppercase() => out.extend(["[^", members, "]"]),
        (_, Some(members)) if is_in_class => out.push_str(members),
        (_, Some(members)) => out.extend(["[", members, "]"]),
        ('b', _) if !is_in_class => out.push_str(r"(?-u:\b)"),
        _ => out.extend(['\\', it]),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn patterns_are_read_as_go_reads_them() {
        let rows = [
            (r"^\d+$", "123", true),
            (r"^\d+$", "\u{663}", false),
            (r"^\w+$", "a_9", true),
            (r"^\w+$", "\u{e9}", false),
            (r"^\W$", "\u{e9}", true),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\d]$", "\u{663}", true),
            (r"^[\D]$", "\u{663}", true),
            (r"^\s$", "\u{a0}", false),
            (r"a\b", "a\u{e9}", true),
            (r"^[[]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[^[:alpha:]]$", "1", true),
            (r"^[[:alpha:]\d]+$", "a1", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "b", true),
            (r"^\Qa.b\E.$", "a.bc", true),
            (r"^\Qa.b\E.$", "axbc", false),
            ("^a{2}{x{,1}$", "aa{x{,1}", true),
            (r"^\[\]$", "[]", true),
            (r"^[\]&]+$", "]&", true),
            ("^\u{e9}.$", "\u{e9}\u{e9}", true),
            (r"^(?i)\x{c9}$", "\u{e9}", true),
            (r"^\p{Greek}\pL$", "\u{3b1}\u{e9}", true),
        ];
        for (of, text, expected) in rows {
            assert_eq!(
                pattern(of).map(|it| it.on(text).is_match(text)),
                Ok(expected),
                "{of} {text}"
            );
        }
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_refused() {
        for of in ["(", "[", r"\", "*", "[b-a]", r"(?=a)", r"(a)\1", "(a{1000}){1000}"] {
            assert!(pattern(of).is_err(), "{of}");
        }
    }
}
