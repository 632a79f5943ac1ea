//! What Go says of texts that it cannot read: times (`time.Parse`) and bytes (`encoding/base64`).

/// Why a time cannot be read; `None` if it can. With fractions of seconds, all six digits of them
/// have to be there.
pub(super) fn time_problem(text: &str, is_micro: bool) -> Option<String> {
    let mut parser = Time { layout: if is_micro { MICRO } else { SECONDS }, text, rest: text };
    parser.parse(is_micro).err()
}

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

struct Time<'a> {
    layout: &'static str,
    text: &'a str,
    rest: &'a str,
}

impl Time<'_> {
    fn parse(&mut self, is_micro: bool) -> Result<(), String> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.number("01", true)?;
        if !(1..=12).contains(&month) {
            return Err(self.range("month"));
        }
        self.literal("-")?;
        let day = self.number("02", true)?;
        self.literal("T")?;
        let parts = [("15", "hour", 24), ("04", "minute", 60), ("05", "second", 60)];
        for (element, name, end) in parts {
            let value = self.number(element, element != "15")?;
            if value >= end {
                return Err(self.range(name));
            }
            if element != "05" {
                self.literal(":")?;
            }
        }
        self.fraction(is_micro)?;
        self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.text, self.rest));
        }
        if !(1..=days(year, month)).contains(&day) {
            return Err(self.range("day"));
        }
        Ok(())
    }

    fn expected(&self, element: &str) -> String {
        format!(
            "parsing time {:?} as {:?}: cannot parse {:?} as {element:?}",
            self.text, self.layout, self.rest
        )
    }

    fn range(&self, part: &str) -> String {
        format!("parsing time {:?}: {part} out of range", self.text)
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.expected(literal))?;
        Ok(())
    }

    fn year(&mut self) -> Result<u32, String> {
        let digits = self.rest.get(..4).filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
        let year = digits.and_then(|it| it.parse().ok()).ok_or_else(|| self.expected("2006"))?;
        self.rest = &self.rest[4..];
        Ok(year)
    }

    /// Two digits, or one if that is enough.
    fn number(&mut self, element: &str, is_fixed: bool) -> Result<u32, String> {
        let n_digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if n_digits == 0 || (is_fixed && n_digits == 1) {
            return Err(self.expected(element));
        }
        let (digits, rest) = self.rest.split_at(n_digits);
        let value = digits.parse().map_err(|_| self.expected(element))?;
        self.rest = rest;
        Ok(value)
    }

    fn fraction(&mut self, is_micro: bool) -> Result<(), String> {
        let behind = self.rest.strip_prefix(['.', ',']);
        let n_digits = behind.map_or(0, |it| it.bytes().take_while(u8::is_ascii_digit).count());
        if is_micro {
            if n_digits < 6 {
                return Err(self.expected(".000000"));
            }
            self.rest = &self.rest[7..];
        } else if n_digits > 0 {
            self.rest = &self.rest[1 + n_digits..];
        }
        Ok(())
    }

    fn zone(&mut self) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(());
        }
        let bad = || self.expected("Z07:00");
        let [sign, h0, h1, b':', m0, m1, ..] = *self.rest.as_bytes() else { return Err(bad()) };
        let digits = [h0, h1, m0, m1];
        if !matches!(sign, b'+' | b'-') || !digits.iter().all(u8::is_ascii_digit) {
            return Err(bad());
        }
        let [h0, h1, m0, m1] = digits.map(|it| u32::from(it - b'0'));
        if h0 * 10 + h1 > 24 {
            return Err(self.range("time zone offset hour"));
        }
        if m0 * 10 + m1 > 60 {
            return Err(self.range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        Ok(())
    }
}

fn days(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Why a text is no base64; `None` if it is.
pub(super) fn base64_problem(text: &str) -> Option<String> {
    let at = first_wrong(text.as_bytes())?;
    Some(format!("illegal base64 data at input byte {at}"))
}

/// By groups of four; line ends count as nothing.
fn first_wrong(bytes: &[u8]) -> Option<usize> {
    let mut digits = bytes.iter().enumerate().filter(|it| !matches!(it.1, b'\r' | b'\n'));
    let mut n_in_group = 0;
    while let Some((at, byte)) = digits.next() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                n_in_group = (n_in_group + 1) % 4;
            }
            b'=' if n_in_group == 2 => {
                return match digits.next() {
                    None => Some(bytes.len()),
                    Some((_, b'=')) => digits.next().map(|it| it.0),
                    Some((after, _)) => Some(after),
                };
            }
            b'=' if n_in_group == 3 => return digits.next().map(|it| it.0),
            _ => return Some(at),
        }
    }
    (n_in_group > 0).then(|| bytes.len() - n_in_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_read_are_said_to_be_so_in_gos_words() {
        let check = |text: &str, expected: &str| {
            let found = time_problem(text, false).unwrap_or_default();
            let as_layout = format!("parsing time {text:?} as {SECONDS:?}: ");
            let found = found.replace(&as_layout, "");
            assert_eq!(found.replace(&format!("parsing time {text:?}: "), ""), expected, "{text}");
        };
        for text in ["2024-01-02T03:04:05Z", "2024-02-29T3:04:05.25+01:30", "0001-01-01T00:00:00Z"]
        {
            check(text, "");
        }
        check("", r#"cannot parse "" as "2006""#);
        check("x", r#"cannot parse "x" as "2006""#);
        check("2024-1-02T03:04:05Z", r#"cannot parse "1-02T03:04:05Z" as "01""#);
        check("2024-13-02T03:04:05Z", "month out of range");
        check("2023-02-29T03:04:05Z", "day out of range");
        check("2024-01-02T24:04:05Z", "hour out of range");
        check("2024-01-02 03:04:05Z", r#"cannot parse " 03:04:05Z" as "T""#);
        check("2024-01-02T03:04:05", r#"cannot parse "" as "Z07:00""#);
        check("2024-01-02T03:04:05Zx", r#"extra text: "x""#);
        check("2024-01-02T03:04:05+25:00", "time zone offset hour out of range");
    }

    #[test]
    fn fractions_of_seconds_have_six_digits_where_they_are_kept() {
        assert_eq!(time_problem("2024-01-02T03:04:05.000001Z", true), None);
        assert_eq!(
            time_problem("2024-01-02T03:04:05Z", true).as_deref(),
            Some(
                r#"parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
            )
        );
    }

    #[test]
    fn bytes_that_are_no_base64_are_counted_as_go_counts_them() {
        let check = |text: &str, expected: Option<usize>| {
            assert_eq!(first_wrong(text.as_bytes()), expected, "{text}");
        };
        for text in ["", "YQ==", "YWI=", "YWJj", "YW\nJj"] {
            check(text, None);
        }
        check("%", Some(0));
        check("YW J", Some(2));
        check("YWJ", Some(0));
        check("YWJjZ", Some(4));
        check("YQ=", Some(3));
        check("YQ==x", Some(4));
        check("=", Some(0));
    }
}
